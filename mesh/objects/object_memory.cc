#include "mesh/objects/object_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/memory.h"
#include "core/base/units.h"

namespace weft::mesh {
namespace {

constexpr std::uint64_t kMagic = 0x314a424f54464557;  // "WEFTOBJ1"

/// End of the memory, by which a reader knows the object.
struct Trailer {
  std::uint64_t magic, owner, number;
};

std::uint64_t trailer_at(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }
std::uint64_t size_of_memory(std::uint64_t bytes) { return trailer_at(bytes) + sizeof(Trailer); }

[[noreturn]] void no_memory(std::uint64_t bytes, int why) {
  throw_error(ErrorCode::kResourceExhausted,
              "this host has no {} of memory left for an object ({}); drop objects, or put smaller "
              "ones",
              format_bytes(bytes), std::strerror(why));
}

}  // namespace

ObjectMemory::ObjectMemory(const ObjectId& id, std::uint64_t bytes,
                           std::shared_ptr<HostBudget> budget)
    : bytes_(bytes), budget_(std::move(budget)), unwritten_(bytes) {
  const std::uint64_t promised = budget_->begin_writing(bytes);
  try {
    allocate(id, promised);
  } catch (...) {
    budget_->end_writing(bytes);
    throw;
  }
}

void ObjectMemory::allocate(const ObjectId& id, std::uint64_t promised) {
  const std::uint64_t bytes = bytes_;
  const auto size = static_cast<off_t>(size_of_memory(bytes));
  // Pages are allocated when they are written, beside the arrival of the bytes. A host without
  // enough of them would then end processes.
  if (const auto available = available_shared_memory(); available && *available < promised)
    no_memory(bytes, ENOMEM);
  descriptor_ = ::memfd_create("weft-object", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor_ < 0) no_memory(bytes, errno);
  void* address = MAP_FAILED;
  if (::fchmod(descriptor_, 0600) == 0 && ::ftruncate(descriptor_, size) == 0 &&
      ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) {
    const int why = errno;
    ::close(descriptor_);
    no_memory(bytes, why);
  }
  address_ = static_cast<std::byte*>(address);
  const Trailer trailer{kMagic, id.owner.value(), id.number};
  std::memcpy(address_ + trailer_at(bytes), &trailer, sizeof(trailer));
}

ObjectMemory::~ObjectMemory() {
  ::munmap(address_, size_of_memory(bytes_));
  ::close(descriptor_);
  budget_->end_writing(unwritten_);
  budget_->release(bytes_);
}

void ObjectMemory::wrote(std::uint64_t bytes) {
  unwritten_ -= bytes;
  budget_->end_writing(bytes);
}

void ObjectMemory::seal() {
  wrote(unwritten_);
  const bool sealed = ::mprotect(address_, size_of_memory(bytes_), PROT_READ) == 0 &&
                      ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
  WEFT_CHECK(sealed, "the memory of an object cannot be sealed: {}", std::strerror(errno));
}

MemoryLocation ObjectMemory::location() const {
  struct stat status {};
  WEFT_CHECK(::fstat(descriptor_, &status) == 0, "{}", std::strerror(errno));
  return {::getpid(), descriptor_, status.st_ino, bytes_};
}

ObjectMapping::ObjectMapping(std::shared_ptr<const ObjectMemory> memory,
                             std::function<void()> released)
    : memory_(std::move(memory)), bytes_(memory_->bytes()), released_(std::move(released)) {}

ObjectMapping::ObjectMapping(const ObjectId& id, const MemoryLocation& location,
                             std::function<void()> released)
    : released_(std::move(released)) {
  const std::string path = fmt::format("/proc/{}/fd/{}", location.pid, location.descriptor);
  // Not blocking: the descriptor of an ended process may be a pipe of another one now.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  const std::uint64_t size = size_of_memory(location.bytes);
  const int seals = descriptor < 0 ? -1 : ::fcntl(descriptor, F_GET_SEALS);
  // Without these seals, the other process could cut the file, and reading it would be fatal.
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
  const bool known = seals >= 0 && (seals & kNeeded) == kNeeded &&
                     ::fstat(descriptor, &status) == 0 && status.st_ino == location.inode &&
                     static_cast<std::uint64_t>(status.st_size) == size;
  void* address = known ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (address == MAP_FAILED)
    throw_error(ErrorCode::kNotFound, "the memory of object {} is not at {} any more{}{}",
                id.number, path, known || descriptor < 0 ? ": " : "",
                known || descriptor < 0 ? std::strerror(why) : "");
  bytes_ = {static_cast<const std::byte*>(address), location.bytes};
  Trailer trailer{};
  std::memcpy(&trailer, bytes_.data() + trailer_at(location.bytes), sizeof(trailer));
  if (trailer.magic == kMagic && trailer.owner == id.owner.value() && trailer.number == id.number)
    return;
  ::munmap(address, size);
  throw_error(ErrorCode::kNotFound, "the memory at {} is not that of object {}", path, id.number);
}

ObjectMapping::~ObjectMapping() {
  if (!memory_) ::munmap(const_cast<std::byte*>(bytes_.data()), size_of_memory(bytes_.size()));
  if (released_) released_();
}

}  // namespace weft::mesh
