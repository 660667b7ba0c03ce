#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/codec/codec.h"
#include "mesh/objects/host_budget.h"
#include "mesh/objects/object_ref.h"

namespace weft::mesh {

/// Place of a sealed object's memory, for other processes of the host.
struct MemoryLocation {
  std::int32_t pid = 0;         ///< Process that holds the memory.
  std::int32_t descriptor = 0;  ///< Its descriptor there.
  std::uint64_t inode = 0;      ///< Tells the file from a later one with the same descriptor.
  std::uint64_t bytes = 0;

  static constexpr auto fields = weft::fields(&MemoryLocation::pid, &MemoryLocation::descriptor,
                                              &MemoryLocation::inode, &MemoryLocation::bytes);
};

/// Memory of one object in a file without a name (memfd), which other processes of the user can map
/// read-only. Filled once, then sealed. Its end does not end their mappings.
///
///   | bytes of the object | 0 to 7 bytes | magic u64 | owner u64 | number u64 |
///
/// One thread at a time until it is sealed; then any thread.
class ObjectMemory final {
 public:
  /// `budget`: has reserved `bytes`; gets them back at the end, not if this throws. Pages are
  /// allocated when they are written. Throws Error(kResourceExhausted) if the system has too little
  /// memory for these and all others that the host's processes have still to write.
  ObjectMemory(const ObjectId& id, std::uint64_t bytes, std::shared_ptr<HostBudget> budget);
  ~ObjectMemory();
  ObjectMemory(const ObjectMemory&) = delete;
  ObjectMemory& operator=(const ObjectMemory&) = delete;

  /// Returns the bytes, writable until seal().
  std::span<std::byte> writable() { return {address_, bytes_}; }
  std::span<const std::byte> bytes() const { return {address_, bytes_}; }
  /// Notes that `bytes` more were written.
  void wrote(std::uint64_t bytes);
  /// Ends all writing, by this process and others.
  void seal();
  MemoryLocation location() const;

 private:
  /// `promised`: bytes that the host's processes have still to write, these included.
  void allocate(const ObjectId& id, std::uint64_t promised);
  void create_file(std::uint64_t file_bytes);

  const std::uint64_t bytes_;
  const std::shared_ptr<HostBudget> budget_;  // shared with the copies of the process
  std::uint64_t unwritten_;
  int descriptor_ = -1;
  std::byte* address_ = nullptr;
};

/// Read-only view of an object's memory, in its own process or in another one of the host. Shared
/// by the readers of a process. Any thread.
class ObjectMapping final {
 public:
  /// Calls `released` at its end, which must not block. May be empty.
  ObjectMapping(std::shared_ptr<const ObjectMemory> memory, std::function<void()> released);
  /// Maps memory of another process. Throws Error(kNotFound) if it is not there any more.
  ObjectMapping(const ObjectId& id, const MemoryLocation& location, std::function<void()> released);
  ~ObjectMapping();
  ObjectMapping(const ObjectMapping&) = delete;
  ObjectMapping& operator=(const ObjectMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  const std::shared_ptr<const ObjectMemory> memory_;  ///< Null: mapped from another process.
  std::span<const std::byte> bytes_;
  const std::function<void()> released_;
};

}  // namespace weft::mesh
