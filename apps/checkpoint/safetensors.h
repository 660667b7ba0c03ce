#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/shape.h"

namespace weft::apps {

/// A named f32 tensor in somebody else's memory.
struct TensorView {
  std::string name;
  Shape shape;
  std::span<const float> values;
};

/// Writes a safetensors file: u64 header length | JSON header | tensors, little endian, in the given order.
/// It is flushed to the disk before this returns. Replaces `path`, not atomically: write elsewhere and
/// rename.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// A safetensors file of f32 tensors, mapped into memory. Any thread.
class SafetensorsFile {
 public:
  /// Checks header, offsets and size. Throws Error(kNotFound), or Error(kDataLoss) with what is wrong.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  ~SafetensorsFile();

  /// In the order of the file; values are valid as long as this object.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// Throws Error(kNotFound) if there is no tensor of that name.
  const TensorView& tensor(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  void parse(const std::filesystem::path& path);

  std::span<const std::byte> mapped_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace weft::apps
