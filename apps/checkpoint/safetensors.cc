#include "apps/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

namespace weft::apps {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kLargestHeader = 100 << 20;  // the format's own limit

/// The bytes of an f32 tensor of that shape; nothing if an extent is negative or it has more than `most` bytes.
std::optional<std::size_t> bytes_of(const Shape& shape, std::size_t most) {
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  std::size_t bytes = empty ? 0 : sizeof(float);
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (empty) continue;
    if (static_cast<std::size_t>(extent) > most / bytes) return std::nullopt;
    bytes *= static_cast<std::size_t>(extent);
  }
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::span<const TensorPlace> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const TensorPlace& tensor : tensors) {
    WEFT_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    const std::size_t end = missing_ + static_cast<std::size_t>(num_elements(tensor.shape)) * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {missing_, end}}};
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
    // A disk that has not enough room says so now, where it can.
    if (::fallocate(fd_, 0, 0, static_cast<off_t>(begins_.back())) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) fail("write");
    if (::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) fail("write");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() { ::close(fd_); }

void SafetensorsWriter::fail(const char* what) const {
  throw_error(ErrorCode::kUnavailable, "cannot {} {}: {}", what, path_.string(), std::strerror(errno));
}

void SafetensorsWriter::write(std::size_t tensor, std::size_t first, std::span<const float> values) {
  std::size_t at = begins_[tensor] + first * sizeof(float);
  WEFT_CHECK(at + values.size_bytes() <= begins_[tensor + 1], "{} values from {} on of tensor {}", values.size(), first, tensor);
  const char* from = reinterpret_cast<const char*>(values.data());
  for (std::size_t left = values.size_bytes(); left > 0;) {
    const ssize_t written = ::pwrite(fd_, from, left, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    from += written;
    at += static_cast<std::size_t>(written);
    left -= static_cast<std::size_t>(written);
  }
  missing_ -= values.size_bytes();
}

void SafetensorsWriter::flush() {
  WEFT_CHECK(missing_ == 0, "{} bytes of {} were not written", missing_, path_.string());
  if (::fsync(fd_) != 0) fail("flush");
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorPlace> places;
  for (const TensorView& tensor : tensors) {
    WEFT_CHECK(num_elements(tensor.shape) == static_cast<std::int64_t>(tensor.values.size()), "{}: {} values", tensor.name,
               tensor.values.size());
    places.push_back({tensor.name, tensor.shape});
  }
  SafetensorsWriter file(path, places, metadata);
  for (std::size_t i = 0; i < tensors.size(); ++i) file.write(i, 0, tensors[i].values);
  file.flush();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_error(ErrorCode::kNotFound, "cannot read {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  void* address = known && status.st_size > 0
                      ? ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0)
                      : MAP_FAILED;
  ::close(fd);
  if (address == MAP_FAILED) throw_error(ErrorCode::kDataLoss, "{} is empty or cannot be mapped", path.string());
  mapped_ = {static_cast<const std::byte*>(address), static_cast<std::size_t>(status.st_size)};
  try {
    parse(path);
  } catch (...) {
    ::munmap(address, mapped_.size());
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size()); }

void SafetensorsFile::parse(const std::filesystem::path& path) {
  const auto damaged = [&](const std::string& what) {
    throw_error(ErrorCode::kDataLoss, "{} is no safetensors file of f32 tensors, or is damaged: {}", path.string(), what);
  };
  std::uint64_t header_size = 0;
  if (mapped_.size() < sizeof header_size) damaged("too short");
  std::memcpy(&header_size, mapped_.data(), sizeof header_size);
  if (header_size > kLargestHeader || header_size > mapped_.size() - sizeof header_size) damaged("header cut off");
  const char* text = reinterpret_cast<const char*>(mapped_.data()) + sizeof header_size;
  const auto header = nlohmann::ordered_json::parse(text, text + header_size, nullptr, false);
  if (!header.is_object()) damaged("header is not JSON");
  const std::span<const std::byte> body = mapped_.subspan(sizeof header_size + header_size);
  if (reinterpret_cast<std::uintptr_t>(body.data()) % sizeof(float) != 0) damaged("tensors are not aligned");

  std::size_t expected = 0;
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      if (entry.at("dtype") != "F32") damaged("tensor " + name + " is not F32");
      const auto shape = entry.at("shape").get<Shape>();
      const auto offsets = entry.at("data_offsets").get<std::vector<std::size_t>>();
      if (offsets.size() != 2 || offsets[0] != expected || offsets[1] < offsets[0] || offsets[1] > body.size() ||
          bytes_of(shape, body.size()) != offsets[1] - offsets[0])
        damaged("tensor " + name + " has impossible offsets");
      expected = offsets[1];
      tensors_.push_back(
          {name, shape, {reinterpret_cast<const float*>(body.data() + offsets[0]), (offsets[1] - offsets[0]) / sizeof(float)}});
    }
  } catch (const nlohmann::json::exception& error) {
    damaged(error.what());
  }
  if (expected != body.size()) damaged("its tensors do not fill it");
}

void SafetensorsFile::forget(std::span<const float> values) const {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(values.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(values.data() + values.size()) / page * page;
  // Pages of a file that nobody writes to are read again when they are wanted.
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

const TensorView& SafetensorsFile::tensor(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorView& t) { return t.name == name; });
  if (found == tensors_.end()) throw_error(ErrorCode::kNotFound, "the file has no tensor '{}'", name);
  return *found;
}

}  // namespace weft::apps
