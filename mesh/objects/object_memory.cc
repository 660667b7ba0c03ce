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
#include "core/base/platform.h"
#include "core/base/units.h"
#include "mesh/objects/memory_platform.h"

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

/// Maps memory that another process holds. Throws Error(kNotFound) if it is not there any more.
const std::byte* map_memory(const ObjectId& id, const MemoryLocation& location) {
  if (MemoryPlatform* const platform = MemoryPlatform::simulated()) {
    const std::byte* const address = platform->map(location.descriptor);
    if (address == nullptr)
      throw_error(ErrorCode::kNotFound, "the memory of object {} is not there any more", id.number);
    return address;
  }
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
  return static_cast<const std::byte*>(address);
}

void unmap_memory(std::span<const std::byte> bytes) {
  if (MemoryPlatform* const platform = MemoryPlatform::simulated())
    return platform->unmap(bytes.data());
  ::munmap(const_cast<std::byte*>(bytes.data()), size_of_memory(bytes.size()));
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
  // Pages are allocated when they are written, beside the arrival of the bytes. A host without
  // enough of them would then end processes.
  if (const auto available = available_shared_memory(); available && *available < promised)
    no_memory(bytes, ENOMEM);
  if (MemoryPlatform* const platform = MemoryPlatform::simulated()) {
    const MemoryPlatform::Allocation allocated = platform->allocate(size_of_memory(bytes));
    descriptor_ = allocated.descriptor;
    address_ = allocated.address;
  } else {
    create_file(size_of_memory(bytes));
  }
  const Trailer trailer{kMagic, id.owner.value(), id.number};
  std::memcpy(address_ + trailer_at(bytes), &trailer, sizeof(trailer));
}

void ObjectMemory::create_file(std::uint64_t file_bytes) {
  const auto size = static_cast<off_t>(file_bytes);
  descriptor_ = ::memfd_create("weft-object", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor_ < 0) no_memory(bytes_, errno);
  void* address = MAP_FAILED;
  if (::fchmod(descriptor_, 0600) == 0 && ::ftruncate(descriptor_, size) == 0 &&
      ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) {
    const int why = errno;
    ::close(descriptor_);
    no_memory(bytes_, why);
  }
  address_ = static_cast<std::byte*>(address);
}

ObjectMemory::~ObjectMemory() {
  if (MemoryPlatform* const platform = MemoryPlatform::simulated()) {
    platform->release(descriptor_);
  } else {
    ::munmap(address_, size_of_memory(bytes_));
    ::close(descriptor_);
  }
  budget_->end_writing(unwritten_);
  budget_->release(bytes_);
}

void ObjectMemory::wrote(std::uint64_t bytes) {
  unwritten_ -= bytes;
  budget_->end_writing(bytes);
}

void ObjectMemory::seal() {
  wrote(unwritten_);
  if (MemoryPlatform::simulated() != nullptr) return;
  const bool sealed = ::mprotect(address_, size_of_memory(bytes_), PROT_READ) == 0 &&
                      ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
  WEFT_CHECK(sealed, "the memory of an object cannot be sealed: {}", std::strerror(errno));
}

MemoryLocation ObjectMemory::location() const {
  struct stat status {};
  WEFT_CHECK(MemoryPlatform::simulated() != nullptr || ::fstat(descriptor_, &status) == 0, "{}",
             std::strerror(errno));
  return {process_id(), descriptor_, status.st_ino, bytes_};
}

ObjectMapping::ObjectMapping(std::shared_ptr<const ObjectMemory> memory,
                             std::function<void()> released)
    : memory_(std::move(memory)), bytes_(memory_->bytes()), released_(std::move(released)) {}

ObjectMapping::ObjectMapping(const ObjectId& id, const MemoryLocation& location,
                             std::function<void()> released)
    : released_(std::move(released)) {
  bytes_ = {map_memory(id, location), location.bytes};
  Trailer trailer{};
  std::memcpy(&trailer, bytes_.data() + trailer_at(location.bytes), sizeof(trailer));
  if (trailer.magic == kMagic && trailer.owner == id.owner.value() && trailer.number == id.number)
    return;
  unmap_memory(bytes_);
  throw_error(ErrorCode::kNotFound,
              "the memory at descriptor {} of process {} is not that of "
              "object {}",
              location.descriptor, location.pid, id.number);
}

ObjectMapping::~ObjectMapping() {
  if (!memory_) unmap_memory(bytes_);
  if (released_) released_();
}

}  // namespace weft::mesh
