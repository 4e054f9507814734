/* The registers, spilled bytes and shared memory of compiled kernels, and a table of them. */
#ifndef WEFT_TESTS_GPU_RESOURCES_H
#define WEFT_TESTS_GPU_RESOURCES_H

/* Takes the kernels of a program from the log of the assembler (--ptxas-options=-v). A row is a
 * function of a text with its definitions; of several generated bodies it has the largest
 * numbers. */
void resources_add(const char *source, const char *log);
/* Writes the rows to the file. */
void resources_record(const char *path, const char *compiler);
/* Compares the rows with the file, and prints a line for each difference: a kernel that needs more
 * than its row, spills without a comment in the row, or has no row. all: every kernel was compiled,
 * so that a row without a kernel counts, too. Returns the number of differences. A file of another
 * compiler is compared in its names and spills alone. */
int resources_compare(const char *path, const char *compiler, int all);
void resources_free(void);

#endif
