#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/codec/bytes.h"
#include "core/spill/input_file.h"

namespace weft {

/// Writes records that memory should not hold into a file, in blocks of about 1 MiB. One thread.
///
/// The file appears under its name when it is committed, whole, and never before: what was not
/// committed is removed. Pages that are on the disk then are dropped from the page cache, so that
/// they count against nobody's memory.
///
///   file:   "WEFTSPL1"  block...  end
///   block:  payload's bytes u32 | CRC32C of what follows u32 | label u64 | payload
///   end:    a block without payload, whose label is the number of blocks before it
///
/// Numbers are little-endian. Records have no frame of their own: whoever writes them can tell
/// where one ends.
class SpillWriter final {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

  /// `block_bytes`: less where many are open at once. Throws Error(kUnavailable) if the folder
  /// cannot be written to.
  explicit SpillWriter(std::filesystem::path path, std::size_t block_bytes = kBlockBytes);
  SpillWriter(const SpillWriter&) = delete;
  SpillWriter& operator=(const SpillWriter&) = delete;
  ~SpillWriter();

  /// Never parts a record: a block that it does not fit into ends before it. `label` is the block's
  /// if the record begins one: the first id in it, say. An empty record is none. Throws
  /// Error(kResourceExhausted) when the disk is full.
  void append(std::span<const std::byte> record, std::uint64_t label = 0);
  /// What a committed file outlives.
  enum class Outlives : std::uint8_t {
    kCrash,    ///< Of the machine: it is on the disk.
    kProcess,  ///< Of the process alone: it takes no wait for the disk. A reader sees what is cut.
  };
  /// Nothing can be appended after this. Throws as append() does.
  void commit(Outlives outlives = Outlives::kCrash);

  /// Of all records so far.
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  std::uint64_t num_blocks() const { return blocks_; }  ///< Written.

 private:
  void write_block();
  void write(std::span<const std::byte> bytes);

  const std::filesystem::path path_;
  const std::size_t block_bytes_;
  const std::filesystem::path temporary_;
  int fd_ = -1;
  ByteWriter block_;  ///< Its label and payload; nothing before its first record.
  std::uint64_t payload_bytes_ = 0, blocks_ = 0;
};

/// Reads such a file block by block. One thread.
class SpillReader final {
 public:
  /// What becomes of the page cache's pages that have been read.
  enum class Pages : std::uint8_t {
    kDrop,  ///< They go; those that are not on the disk yet are written there first.
    kKeep,  ///< Of files that are read again soon, or removed.
  };
  /// Throws Error(kNotFound) if there is no such file, Error(kDataLoss) if it is another one.
  explicit SpillReader(std::filesystem::path path, Pages pages = Pages::kDrop);

  /// The records of the next block; valid until the next call. Empty behind the last one. Throws
  /// Error(kDataLoss), which names the block, if it is damaged or missing.
  std::span<const std::byte> next();
  /// Of the block that was given last.
  std::uint64_t label() const { return label_; }

 private:
  void read(std::span<std::byte> bytes);
  [[noreturn]] void damaged(const char* what) const;

  const InputFile file_;
  const Pages pages_;
  std::vector<std::byte> block_;  ///< Its label and payload.
  std::uint64_t label_ = 0, blocks_ = 0;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
};

/// A file that is one record, in blocks, for what is read whole, and often. Throws what SpillWriter
/// throws.
void write_spilled(const std::filesystem::path& path, std::span<const std::byte> content,
                   SpillWriter::Outlives outlives);
/// Throws what SpillReader throws.
std::vector<std::byte> read_spilled(const std::filesystem::path& path);

}  // namespace weft
