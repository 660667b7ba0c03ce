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

/// A named f32 tensor in somebody else's memory.
struct TensorView {
  std::string name;
  Shape shape;
  std::span<const float> values;
};

/// A tensor of a file that is being written.
struct TensorPlace {
  std::string name;
  Shape shape;
};

/// A safetensors file of f32 tensors being written, part by part in any order. Replaces `path`, not
/// atomically: write elsewhere and rename. One thread at a time.
class SafetensorsWriter {
 public:
  /// Writes the header and takes the file's room on the disk. Throws Error(kUnavailable).
  SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorPlace> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// Elements of the i-th tensor from `first` on. Throws Error(kUnavailable).
  void write(std::size_t tensor, std::size_t first, std::span<const float> values);
  /// All is on the disk when it returns. Every element must have been written.
  void flush();

 private:
  [[noreturn]] void fail(const char* what) const;

  const std::filesystem::path path_;
  int fd_ = -1;
  /// Bytes from the start of the file; one more than there are tensors.
  std::vector<std::size_t> begins_;
  std::size_t missing_ = 0;  ///< Bytes that have not been written.
};

/// Writes a safetensors file: u64 header length | JSON header | tensors, little endian, in the
/// given order. It is flushed to the disk before this returns. Replaces `path`, not atomically:
/// write elsewhere and rename.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// A safetensors file, mapped into memory. Its f32, f64, bf16 and f16 tensors are read, as
/// f32; tensors of other types are there, and are refused when asked for. Any thread.
class SafetensorsFile {
 public:
  /// Checks header, offsets and size. Throws Error(kNotFound), or Error(kDataLoss) with what is
  /// wrong.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// Those that can be read, in the order of the header.
  const std::vector<TensorView>& tensors() const;
  /// Its values are valid as long as this object: in the file where it has them as f32, else a
  /// copy. Throws Error(kNotFound) if there is no tensor of that name, Error(kIncompatible) if it
  /// has another type.
  TensorView tensor(const std::string& name) const;
  /// Of all tensors, in the order of the header.
  std::vector<std::string> names() const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Gives memory back that holds these values, for whom the file has been copied part by part;
  /// they may be read again.
  void forget(std::span<const float> values) const;

 private:
  struct Entry {
    std::string name;
    std::string dtype;
    Shape shape;
    std::span<const std::byte> bytes;
  };
  void parse(const std::filesystem::path& path);
  TensorView read(const Entry& entry) const;

  const MappedFile mapped_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
  mutable std::once_flag views_made_;
  mutable std::vector<TensorView> views_;  // made by the first tensors()
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<float>> copies_;  // guarded by mutex_; by name
};

}  // namespace weft::apps
