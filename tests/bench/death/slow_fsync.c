/* Preloaded into processes of a test: each fsync takes half a second, as on a busy network disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

enum { kMicroseconds = 500000 };

int fsync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  usleep(kMicroseconds);
  return real(file);
}

int fdatasync(int file) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  usleep(kMicroseconds);
  return real(file);
}
