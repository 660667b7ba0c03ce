// Stands for a library of NVIDIA that a plugin needs.
extern "C" int fake_nccl_version() { return 99; }
