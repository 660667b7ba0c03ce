// Fake of an NVIDIA library that a plugin needs.
extern "C" int fake_nccl_version() { return 99; }
