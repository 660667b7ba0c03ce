#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/codec/bytes.h"
#include "core/spill/input_file.h"

namespace weft {

/// Writes records to a file that replaces memory, in blocks of about 1 MiB. Not thread-safe.
///
/// The file appears under its name on commit() only, complete. Without commit it is removed. After
/// a flush its pages are dropped from the page cache, so that they do not count as memory in use.
///
///   file:   "WEFTSPL1"  block...  end
///   block:  payload size in bytes u32 | CRC32C of the rest u32 | label u64 | payload
///   end:    a block without payload, whose label is the number of blocks before it
///
/// Numbers are little-endian. Records have no frame: their writer must be able to tell where one
/// ends.
class SpillWriter final {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

  /// `block_bytes` should be smaller if many files are open at once. Throws Error(kUnavailable) if
  /// the folder cannot be written to.
  explicit SpillWriter(std::filesystem::path path, std::size_t block_bytes = kBlockBytes);
  SpillWriter(const SpillWriter&) = delete;
  SpillWriter& operator=(const SpillWriter&) = delete;
  ~SpillWriter();

  /// Appends a record. A record is never split: if it does not fit, it starts a new block. `label`
  /// becomes the block's label if the record is its first, such as the first id in it. Ignores an
  /// empty record. Throws Error(kResourceExhausted) if the disk is full.
  void append(std::span<const std::byte> record, std::uint64_t label = 0);
  /// Failure that a committed file survives.
  enum class CommitDurability : std::uint8_t {
    kCrash,    ///< Crash of the machine: the file is flushed to disk.
    kProcess,  ///< Crash of the process only: no flush. A reader detects a truncated file.
  };
  /// Completes the file; nothing can be appended afterwards. Throws like append().
  void commit(CommitDurability outlives = CommitDurability::kCrash);

  /// Returns the payload bytes of all records so far.
  std::uint64_t payload_bytes() const { return payload_bytes_; }
  std::uint64_t num_blocks() const { return blocks_; }  ///< Returns the number of blocks written.

 private:
  void write_block();
  void write(std::span<const std::byte> bytes);

  const std::filesystem::path path_;
  const std::size_t block_bytes_;
  const std::filesystem::path temporary_;
  int fd_ = -1;
  ByteWriter block_;  ///< Label and payload of the current block; empty before its first record.
  std::uint64_t payload_bytes_ = 0, blocks_ = 0;
};

/// Reads a file of SpillWriter block by block. Not thread-safe.
class SpillReader final {
 public:
  /// Treatment of page cache pages after reading.
  enum class PageCachePolicy : std::uint8_t {
    kDrop,  ///< Drop them; unwritten pages are written to disk first.
    kKeep,  ///< Keep them, for files that are soon read again or removed.
  };
  /// Throws Error(kNotFound) if there is no such file, Error(kDataLoss) if it has another format.
  explicit SpillReader(std::filesystem::path path, PageCachePolicy pages = PageCachePolicy::kDrop);

  /// Returns the records of the next block, valid until the next call. Empty after the last block.
  /// Throws Error(kDataLoss), which names the block, if it is damaged or missing.
  std::span<const std::byte> next();
  /// Returns the label of the block last returned by next().
  std::uint64_t label() const { return label_; }

 private:
  void read(std::span<std::byte> bytes);
  [[noreturn]] void throw_damaged(const char* what) const;

  const InputFile file_;
  const PageCachePolicy pages_;
  std::vector<std::byte> block_;  ///< Label and payload of the current block.
  std::uint64_t label_ = 0, blocks_ = 0;
  std::uint64_t offset_ = 0;
  bool ended_ = false;
};

/// Writes `content` to a file in blocks. For content that is often read, and as a whole. Throws
/// like SpillWriter.
void write_spilled(const std::filesystem::path& path, std::span<const std::byte> content,
                   SpillWriter::CommitDurability outlives);
/// Reads a file of write_spilled(). Throws like SpillReader.
std::vector<std::byte> read_spilled(const std::filesystem::path& path);

}  // namespace weft
