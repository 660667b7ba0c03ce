#include "apps/run_files/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/tensor/bfloat16.h"
#include "core/tensor/float16.h"

namespace weft::apps {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kLargestHeader = 100 << 20;  // the format's own limit

/// Returns the bytes of an element of a safetensors type; nullopt for an unknown type.
std::optional<std::size_t> element_size(const std::string& dtype) {
  static const std::vector<std::pair<std::size_t, std::vector<std::string>>> kTypes = {
      {8, {"F64", "I64", "U64"}},
      {4, {"F32", "I32", "U32"}},
      {2, {"F16", "BF16", "I16", "U16"}},
      {1, {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}}};
  for (const auto& [size, names] : kTypes)
    if (std::find(names.begin(), names.end(), dtype) != names.end()) return size;
  return std::nullopt;
}

bool is_readable(const std::string& dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "BF16" || dtype == "F16";
}

/// Returns the bytes of a tensor of that shape; nullopt if an extent is negative or the tensor has
/// more than `most` bytes.
std::optional<std::size_t> bytes_of(const Shape& shape, std::size_t element, std::size_t most) {
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  std::size_t bytes = empty ? 0 : element;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (empty) continue;
    if (static_cast<std::size_t>(extent) > most / bytes) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw_error(ErrorCode::kDataLoss, "{} is no safetensors file, or is damaged: {}", path.string(),
              what);
}

/// The two parts of a file.
struct HeaderAndBody {
  nlohmann::ordered_json header;
  std::span<const std::byte> body;
};
HeaderAndBody split_file(std::span<const std::byte> file, const std::filesystem::path& path) {
  std::uint64_t header_size = 0;
  if (file.size() < sizeof header_size) refuse(path, "too short");
  std::memcpy(&header_size, file.data(), sizeof header_size);
  if (header_size > kLargestHeader || header_size > file.size() - sizeof header_size)
    refuse(path, "header cut off");
  const char* text = reinterpret_cast<const char*>(file.data()) + sizeof header_size;
  auto header = nlohmann::ordered_json::parse(text, text + header_size, nullptr, false);
  if (!header.is_object()) refuse(path, "header is not JSON");
  return {std::move(header), file.subspan(sizeof header_size + header_size)};
}

/// Begin and end of a tensor in the body.
using Extent = std::pair<std::size_t, std::size_t>;

/// Checks that the tensors cover the body without gaps or overlaps, in any order.
void check_filled(std::vector<Extent> extents, std::size_t body_size,
                  const std::filesystem::path& path) {
  std::sort(extents.begin(), extents.end());
  std::size_t filled = 0;
  for (const auto& [begin, end] : extents) {
    if (begin != filled) refuse(path, "its tensors overlap or leave gaps: impossible offsets");
    filled = end;
  }
  if (filled != body_size) refuse(path, "its tensors do not fill it");
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::span<const TensorDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const TensorDeclaration& tensor : tensors) {
    WEFT_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    const std::size_t end = missing_ + num_elements(tensor.shape) * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {missing_, end}}};
    begins_.push_back(std::exchange(missing_, end));
  }
  begins_.push_back(missing_);
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t size = text.size();
  text.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
  for (std::size_t& begin : begins_) begin += text.size();

  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("create");
  try {
    // Reports a full disk now rather than at a later write, if the file system can.
    if (::fallocate(fd_, 0, 0, begins_.back()) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
      fail("write");
    if (::pwrite(fd_, text.data(), text.size(), 0) != std::ssize(text)) fail("write");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() { ::close(fd_); }

void SafetensorsWriter::fail(const char* what) const {
  throw_error(ErrorCode::kUnavailable, "cannot {} {}: {}", what, path_.string(),
              std::strerror(errno));
}

void SafetensorsWriter::write(std::size_t tensor, std::size_t first,
                              std::span<const float> values) {
  std::size_t at = begins_[tensor] + first * sizeof(float);
  WEFT_CHECK(at + values.size_bytes() <= begins_[tensor + 1], "{} values from {} on of tensor {}",
             values.size(), first, tensor);
  const char* from = reinterpret_cast<const char*>(values.data());
  for (std::size_t left = values.size_bytes(); left > 0;) {
    const ssize_t written = ::pwrite(fd_, from, left, at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    from += written;
    at += written;
    left -= written;
  }
  missing_ -= values.size_bytes();
}

void SafetensorsWriter::flush() {
  WEFT_CHECK(missing_ == 0, "{} bytes of {} were not written", missing_, path_.string());
  if (::fsync(fd_) != 0) fail("flush");
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorDeclaration> places;
  for (const TensorView& tensor : tensors) {
    WEFT_CHECK(num_elements(tensor.shape) == static_cast<std::int64_t>(tensor.values.size()),
               "{}: {} values", tensor.name, tensor.values.size());
    places.push_back({tensor.name, tensor.shape});
  }
  SafetensorsWriter file(path, places, metadata);
  for (std::size_t i = 0; i < tensors.size(); ++i) file.write(i, 0, tensors[i].values);
  file.flush();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : mapped_(path) {
  if (mapped_.bytes().empty())
    throw_error(ErrorCode::kDataLoss, "{} is empty; expected a safetensors file", path.string());
  parse(path);
}

void SafetensorsFile::parse(const std::filesystem::path& path) {
  const HeaderAndBody file = split_file(mapped_.bytes(), path);
  const std::span<const std::byte> body = file.body;
  std::vector<Extent> extents;
  try {
    for (const auto& [name, entry] : file.header.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto dtype = entry.at("dtype").get<std::string>();
      const auto shape = entry.at("shape").get<Shape>();
      const auto offsets = entry.at("data_offsets").get<std::vector<std::size_t>>();
      if (offsets.size() != 2 || offsets[1] < offsets[0] || offsets[1] > body.size())
        refuse(path, "tensor " + name + " has impossible offsets");
      const auto size = element_size(dtype);
      if (size && bytes_of(shape, *size, body.size()) != offsets[1] - offsets[0])
        refuse(path, "tensor " + name + " has impossible offsets");
      extents.emplace_back(offsets[0], offsets[1]);
      entries_.push_back({name, dtype, shape, body.subspan(offsets[0], offsets[1] - offsets[0])});
    }
  } catch (const nlohmann::json::exception&) {
    refuse(path, "its header does not describe tensors");
  }
  check_filled(std::move(extents), body.size(), path);
}

void SafetensorsFile::release_pages(std::span<const float> values) const {
  // Ignores values that are not in the mapped file: dropping a copy would lose it.
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  const auto mapped = mapped_.bytes();
  if (first < mapped.data() || first >= mapped.data() + mapped.size()) return;
  static const std::uintptr_t page = ::sysconf(_SC_PAGESIZE);
  const auto begin = reinterpret_cast<std::uintptr_t>(values.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(values.data() + values.size()) / page * page;
  // The kernel reads pages of an unmodified file again on access.
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

TensorView SafetensorsFile::read(const TensorEntry& entry) const {
  const bool in_place = entry.dtype == "F32" &&
                        reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % alignof(float) == 0;
  if (in_place)
    return {
        entry.name,
        entry.shape,
        {reinterpret_cast<const float*>(entry.bytes.data()), entry.bytes.size() / sizeof(float)}};
  std::lock_guard lock(mutex_);
  auto copy = copies_.find(entry.name);
  if (copy == copies_.end()) {
    const std::size_t size = *element_size(entry.dtype);
    std::vector<float> values(entry.bytes.size() / size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (size == sizeof(float)) {
        std::memcpy(&values[i], entry.bytes.data() + i * size, size);
        continue;
      }
      if (size == sizeof(double)) {
        double value = 0;
        std::memcpy(&value, entry.bytes.data() + i * size, size);
        values[i] = static_cast<float>(value);
        continue;
      }
      BFloat16 half;  // holds the bits of either type
      std::memcpy(&half.bits, entry.bytes.data() + i * size, size);
      values[i] = entry.dtype == "BF16" ? static_cast<float>(half) : half_to_float(half.bits);
    }
    copy = copies_.emplace(entry.name, std::move(values)).first;
  }
  return {entry.name, entry.shape, copy->second};
}

const std::vector<TensorView>& SafetensorsFile::tensors() const {
  std::call_once(views_made_, [this] {
    for (const TensorEntry& entry : entries_) {
      if (is_readable(entry.dtype)) views_.push_back(read(entry));
    }
  });
  return views_;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const TensorEntry& entry : entries_) names.push_back(entry.name);
  return names;
}

TensorView SafetensorsFile::tensor(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const TensorEntry& entry) { return entry.name == name; });
  if (found == entries_.end())
    throw_error(ErrorCode::kNotFound, "the file has no tensor '{}'", name);
  if (!is_readable(found->dtype))
    throw_error(ErrorCode::kIncompatible, "tensor '{}' is {}; F32, F64, BF16 and F16 can be read",
                name, found->dtype);
  return read(*found);
}

}  // namespace weft::apps
