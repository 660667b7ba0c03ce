#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/mapped_file.h"
#include "core/tensor/shape.h"

namespace weft::apps {

/// Named f32 tensor. Borrows its values.
struct TensorView {
  std::string name;
  Shape shape;
  std::span<const float> values;
};

/// Name and shape of a tensor in a file that is being written.
struct TensorDeclaration {
  std::string name;
  Shape shape;
};

/// Writer of a safetensors file of f32 tensors, piece by piece in any order. Replaces `path`
/// non-atomically: write elsewhere and rename. Used by one thread at a time.
class SafetensorsWriter {
 public:
  /// Writes the header and allocates the file's disk space. Throws Error(kUnavailable).
  SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorDeclaration> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// Writes elements of a tensor from `first` on. Throws Error(kUnavailable).
  void write(std::size_t tensor, std::size_t first, std::span<const float> values);
  /// Flushes the file to disk. Every element must have been written.
  void flush();

 private:
  [[noreturn]] void fail(const char* what) const;

  const std::filesystem::path path_;
  int fd_ = -1;
  /// Offsets in the file; one more than there are tensors.
  std::vector<std::size_t> begins_;
  std::size_t missing_ = 0;  ///< Bytes that have not been written yet.
};

/// Writes a safetensors file and flushes it to disk: u64 header length | JSON header | tensors,
/// little endian, in the given order. Replaces `path` non-atomically: write elsewhere and rename.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Safetensors file mapped into memory. Reads f32, f64, bf16 and f16 tensors as f32. Lists tensors
/// of other types, but refuses to read them. Usable from any thread.
class SafetensorsFile {
 public:
  /// Checks header, offsets and size. Throws Error(kNotFound), or Error(kDataLoss) with the defect.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// All readable tensors, in the order of the header.
  const std::vector<TensorView>& tensors() const;
  /// Returns a view that is valid while this object lives: of the file, if it has f32 values, else
  /// of a copy. Throws Error(kNotFound) if there is no tensor of that name, Error(kIncompatible) if
  /// its type cannot be read.
  TensorView tensor(const std::string& name) const;
  /// Returns the names of all tensors, in the order of the header.
  std::vector<std::string> names() const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Releases the memory of mapped values that were copied. They may be read again.
  void release_pages(std::span<const float> values) const;

 private:
  struct TensorEntry {
    std::string name;
    std::string dtype;
    Shape shape;
    std::span<const std::byte> bytes;
  };
  void parse(const std::filesystem::path& path);
  TensorView read(const TensorEntry& entry) const;

  const MappedFile mapped_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
  mutable std::once_flag views_made_;
  mutable std::vector<TensorView> views_;  // filled by the first tensors()
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<float>> copies_;  // by name; guarded by mutex_
};

}  // namespace weft::apps
