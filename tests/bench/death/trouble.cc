#include "tests/bench/death/trouble.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "tests/support/real_processes.h"

namespace weft::test {
namespace {
constexpr int kScreenBytes = 4096;  // Smallest capacity of a pipe.
}  // namespace

Trouble::Trouble(Kind kind, const RealProcesses& processes)
    : kind_(kind), out_(processes.directory() / "out") {
  if (kind_ == Kind::kFullDisk) {
    mount_ = processes.directory() / "disk";
    std::filesystem::create_directory(mount_);
    if (::mount("none", mount_.c_str(), "tmpfs", 0, "size=16m") != 0)
      throw std::runtime_error(
          fmt::format("cannot mount a small disk (needs root): {}", std::strerror(errno)));
    out_ = mount_ / "out";
    filler_ = mount_ / "filler";
  }
  if (kind_ == Kind::kSlowSync)
    before_commands_ = {"/usr/bin/env",
                        "LD_PRELOAD=" + RealProcesses::program("libslow_fsync.so").string()};
  if (kind_ == Kind::kBlockedOutput) {
    const std::filesystem::path screen = processes.directory() / "screen";
    ::mkfifo(screen.c_str(), 0600);
    screen_ = ::open(screen.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (screen_ < 0 || ::fcntl(screen_, F_SETPIPE_SZ, kScreenBytes) < 0)
      throw std::runtime_error("cannot make a pipe that nobody reads");
    before_run_ = {"/bin/sh", "-c", fmt::format("exec \"$@\" >{} 2>&1", screen.string()), "sh"};
  }
}

Trouble::~Trouble() {
  if (!mount_.empty()) ::umount2(mount_.c_str(), MNT_DETACH);
  if (screen_ >= 0) ::close(screen_);
}

void Trouble::begin() {
  if (filler_.empty()) return;
  const int file = ::open(filler_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::array<char, 4096> zeros{};
  while (::write(file, zeros.data(), zeros.size()) > 0) {
  }
  ::close(file);
}

void Trouble::end() {
  std::error_code ignored;
  if (!filler_.empty()) std::filesystem::remove(filler_, ignored);
}

bool Trouble::explains(const std::string& text) const {
  return kind_ == Kind::kFullDisk && text.find("No space left on device") != std::string::npos;
}

Trouble::Kind trouble_named(const std::string& name) {
  using Kind = Trouble::Kind;
  if (name == "none") return Kind::kNone;
  if (name == "disk") return Kind::kFullDisk;
  if (name == "fsync") return Kind::kSlowSync;
  if (name == "cut") return Kind::kCutLink;
  if (name == "stdout") return Kind::kBlockedOutput;
  throw std::runtime_error("no trouble is called '" + name + "'");
}

}  // namespace weft::test
