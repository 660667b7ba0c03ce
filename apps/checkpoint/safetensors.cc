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

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kLargestHeader = 100 << 20;  // the format's own limit

/// A file being written; closed in any case.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("create");
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { ::close(fd_); }

  void write(const void* bytes, std::size_t size) {
    const char* at = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t written = ::write(fd_, at, size);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("write");
      at += written;
      size -= static_cast<std::size_t>(written);
    }
  }
  void flush() {
    if (::fsync(fd_) != 0) fail("flush");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw_error(ErrorCode::kUnavailable, "cannot {} {}: {}", what, path_.string(), std::strerror(errno));
  }
  std::filesystem::path path_;
  int fd_;
};

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

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    WEFT_CHECK(num_elements(tensor.shape) == static_cast<std::int64_t>(tensor.values.size()), "{}: {} values", tensor.name,
               tensor.values.size());
    WEFT_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.values.size_bytes()}}};
    offset += tensor.values.size_bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');

  OutputFile file(path);
  const std::uint64_t size = text.size();
  file.write(&size, sizeof size);
  file.write(text.data(), text.size());
  for (const TensorView& tensor : tensors) file.write(tensor.values.data(), tensor.values.size_bytes());
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

const TensorView& SafetensorsFile::tensor(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorView& t) { return t.name == name; });
  if (found == tensors_.end()) throw_error(ErrorCode::kNotFound, "the file has no tensor '{}'", name);
  return *found;
}

}  // namespace weft::apps
