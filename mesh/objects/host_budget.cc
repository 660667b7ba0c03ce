#include "mesh/objects/host_budget.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include "core/base/error.h"
#include "core/base/private_file.h"

namespace weft::mesh {
namespace {

// Byte i of the file is the lock of slot i. The lock of all slots lies behind them.

/// Locks or unlocks a byte of the file. Returns false if another process has it.
bool set_lock(int descriptor, std::size_t at, short type, bool waits) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(at);
  lock.l_len = 1;
  int result = -1;
  do result = ::fcntl(descriptor, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

bool is_locked_by_other(int descriptor, std::size_t at) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(at);
  lock.l_len = 1;
  return ::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace

HostBudget::HostBudget(const std::filesystem::path& path, std::uint64_t limit, bool adopts)
    : limit_(limit) {
  if (path.empty()) return;
  descriptor_ = open_trusted(path, O_RDWR | O_CREAT, 0600);
  void* address = MAP_FAILED;
  if (descriptor_ >= 0 && ::ftruncate(descriptor_, sizeof(Shared)) == 0)
    address = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  std::string problem = address == MAP_FAILED ? std::strerror(errno) : "";
  if (problem.empty() && !lock_all()) problem = std::strerror(errno);  // no locks there
  if (problem.empty()) {
    while (slot_ < kSlots && !set_lock(descriptor_, slot_, F_WRLCK, false)) ++slot_;
    if (slot_ == kSlots) problem = "too many processes use it";
  }
  if (!problem.empty()) {
    if (address != MAP_FAILED) ::munmap(address, sizeof(Shared));
    if (descriptor_ >= 0) ::close(descriptor_);  // unlocks it
    throw_error(ErrorCode::kUnavailable, "cannot count the memory of this host's objects in {}: {}",
                path.string(), problem);
  }
  shared_ = static_cast<volatile Shared*>(address);
  publish();
  bool any_other = false;
  for (std::size_t i = 0; i < kSlots && adopts && !any_other; ++i)
    any_other = i != slot_ && is_locked_by_other(descriptor_, i);
  if (any_other) limit_ = shared_->limit;
  else shared_->limit = limit_;
  unlock_all();
}

HostBudget::~HostBudget() {
  if (shared_ == nullptr) return;
  own_ = {};
  publish();
  ::munmap(const_cast<Shared*>(shared_), sizeof(Shared));
  ::close(descriptor_);  // unlocks the slot
}

bool HostBudget::lock_all() { return set_lock(descriptor_, kSlots, F_WRLCK, true); }

void HostBudget::unlock_all() { set_lock(descriptor_, kSlots, F_UNLCK, true); }

void HostBudget::publish() {
  if (shared_ == nullptr) return;
  shared_->slots[slot_].used = own_.used;
  shared_->slots[slot_].unwritten = own_.unwritten;
}

HostBudget::Slot HostBudget::others() const {
  Slot sum{};
  if (shared_ == nullptr) return sum;
  for (std::size_t i = 0; i < kSlots; ++i) {
    const Slot each{shared_->slots[i].used, shared_->slots[i].unwritten};
    if (i == slot_ || each.used == 0 || !is_locked_by_other(descriptor_, i)) continue;
    sum.used += each.used;
    sum.unwritten += each.unwritten;
  }
  return sum;
}

std::uint64_t HostBudget::used_here() const {
  const std::lock_guard lock(mutex_);
  return own_.used;
}

std::uint64_t HostBudget::used() const { return used_here() + others().used; }

std::uint64_t HostBudget::begin_writing(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  own_.unwritten += bytes;
  publish();
  return own_.unwritten + others().unwritten;
}

void HostBudget::end_writing(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  own_.unwritten -= bytes;
  publish();
}

bool HostBudget::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (shared_ != nullptr && !lock_all())
    throw_error(ErrorCode::kUnavailable, "cannot count the memory of this host's objects: {}",
                std::strerror(errno));
  const std::uint64_t used = own_.used + others().used;
  const bool fits = used <= limit_ && bytes <= limit_ - used;
  if (fits) {
    own_.used += bytes;
    publish();
  }
  if (shared_ != nullptr) unlock_all();
  return fits;
}

void HostBudget::release(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  own_.used -= bytes;
  publish();
}

}  // namespace weft::mesh
