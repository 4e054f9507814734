"""Runs small cases of the operators on Oclgrind, a simulator of an OpenCL device that finds accesses out of bounds, races
and wrong calls: tests/ops/oclgrind_kernels.py PATH/TO/weft. It exits with 0 whatever it finds, so its words are searched."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
LIBRARY = pathlib.Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")
program = pathlib.Path(sys.argv[1]).resolve().parent / "tests" / "test_opencl_ops"
# Cases that reach every function of the kernels; in full, all cases that are quick to simulate, with every KIND of a function.
FEW = ("dense_one matmul_tn conv_groups maxpool_odd rms_norm rotary dropout lstm_states gru_lengths element_chain "
       "softmax_xent_smooth attention_unseen embedding transpose pad reduce_sum batch_norm_flat layer_norm clip accumulate_tree adam "
       "avgpool_odd global_avgpool batch_norm_state largest_rows counter sgd reduce_long mse sequence_mean softmax transpose_matrices "
       "write_rows conv_long_dx reorder watch").split()
SLOW = ("conv_volume", "conv_chain", "conv_residual", "_blocks", "embedding_long", "rms_norm_deep", "_wide", "matmul_deep", "dropout_long")
# Oclgrind 21.10 computes these wrongly if the compiler optimizes: other numbers than PoCL's and than its own without.
PLAIN = ("dropout",)
FINDINGS = ("Invalid", "race", "Uninitialized", "Error", "ERROR", "exceeds")


def found(log):
    return [line for line in log.read_text().splitlines() if any(word in line for word in FINDINGS)] if log.exists() else []


def run(command, log, options="", **more):
    log.unlink(missing_ok=True)
    environment = dict(os.environ, OCL_ICD_VENDORS=str(LIBRARY), OCLGRIND_LOG=str(log), OCLGRIND_DATA_RACES="1", OCLGRIND_CHECK_API="1",
                       OCLGRIND_BUILD_OPTIONS=options, XDG_CACHE_HOME=str(log.parent / f"cache{options}"))
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, **more)


def planted(folder):
    """What Oclgrind says of a kernel that writes behind its buffer."""
    log = folder / "planted"
    (folder / "planted.cl").write_text("kernel void beyond(global int *x) { x[get_global_id(0)] = 1; }\n")
    (folder / "planted.sim").write_text("planted.cl\nbeyond\n64 1 1\n64 1 1\n<size=128 fill=0>\n")
    run(["oclgrind-kernel", "--log", str(log), "planted.sim"], log, cwd=folder)
    return found(log)


def unreached(chosen):
    """Functions in the texts of kernels that no chosen case launches; in full, also a KIND of one that another case launches."""
    texts = pathlib.Path(__file__).resolve().parents[2] / "src" / "device" / "gpu" / "kernels"
    functions = {name for text in texts.glob("*.cl") for name in re.findall(r"^ *KERNEL\((\w+),", text.read_text(), re.M)}
    done = subprocess.run([program, "launches"], env=dict(os.environ, OCL_ICD_VENDORS=str(LIBRARY)), capture_output=True, text=True, check=True)
    launches = [line.split() for line in done.stdout.splitlines()]
    if len(functions) < 50 or len(launches) < 500:
        sys.exit(f"FAILED: {len(functions)} functions, {len(launches)} launches are not all there are")
    kinds = {(function, kind) for case, function, kind in launches}
    reached = {(function, kind) for case, function, kind in launches if case in chosen}
    left = functions - {function for function, _ in reached}
    return sorted(left) + ([] if fast else sorted(f"{function} of kind {kind}" for function, kind in kinds - reached))


if not LIBRARY.exists():
    print("SKIPPED: oclgrind is not installed (Debian 12 has it)")
    sys.exit(0)
fast = os.environ.get("WEFT_FAST")
failed = 0
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    if not planted(folder):
        sys.exit("FAILED: Oclgrind says nothing of a planted fault")
    cases = subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout.split()
    chosen = [case for case in cases if (case in FEW if fast else not any(slow in case for slow in SLOW))]
    if fast and len(chosen) != len(FEW):
        sys.exit(f"FAILED: no case is named {set(FEW) - set(chosen)}")
    for function in unreached(chosen):
        failed += 1
        print(f"FAILED: no case launches {function}")
    for case in chosen:
        done = run([program, case], folder / "log", options="-cl-opt-disable" if case.startswith(PLAIN) else "")
        lines = found(folder / "log")
        if done.returncode or lines:
            failed += 1
            print(f"FAILED: {case}: " + "\n    ".join(lines[:6] or done.stdout.splitlines()[-12:]))
print(f"{max(0, len(chosen) - failed)} passed, {failed} failed")
sys.exit(bool(failed))
