/* The line with which a binary begins that the double of NVRTC makes. */
#define FAKE_MAGIC "a binary of fake_nvrtc\n"
