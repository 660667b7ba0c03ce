#include "apps/data/token_file.h"

#include <cstring>

#include "core/base/check.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace {

constexpr char kMagic[] = {'W', 'E', 'F', 'T', 'T', 'O', 'K', '1'};

struct Header {
  char magic[8];
  std::uint32_t id_bytes;
  std::uint32_t vocabulary;
  std::uint64_t count;
  char sha256[64];
};
static_assert(sizeof(Header) == 88);

}  // namespace

void TokenFile::write(const std::filesystem::path& path, std::span<const std::int32_t> ids,
                      int vocabulary) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.id_bytes = vocabulary <= 65536 ? 2 : 4;
  header.vocabulary = vocabulary;
  header.count = ids.size();
  std::string content(sizeof header + ids.size() * header.id_bytes, '\0');
  char* const payload = content.data() + sizeof header;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    WEFT_CHECK(ids[i] >= 0 && ids[i] < vocabulary, "token {} of a vocabulary of {}", ids[i],
               vocabulary);
    std::memcpy(payload + i * header.id_bytes, &ids[i], header.id_bytes);  // little endian
  }
  const std::string digest = weft::sha256(std::as_bytes(std::span(content)).subspan(sizeof header));
  std::memcpy(header.sha256, digest.data(), sizeof header.sha256);
  std::memcpy(content.data(), &header, sizeof header);
  write_atomically(path, content, 0666);
}

bool TokenFile::is_token_file(std::string_view bytes) {
  return bytes.starts_with(std::string_view(kMagic, sizeof kMagic));
}

TokenFile::TokenFile(const std::filesystem::path& path) : path_(path), mapped_(path) {
  const std::size_t size = mapped_.bytes().size();
  if (size < sizeof(Header))
    throw_error(ErrorCode::kDataLoss,
                "{} is too short to be a token file; remove it to have it made again",
                path.string());
  Header header;
  std::memcpy(&header, mapped_.bytes().data(), sizeof header);
  const bool sound = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
                     (header.id_bytes == 2 || header.id_bytes == 4) &&
                     header.count == (size - sizeof header) / header.id_bytes &&
                     (size - sizeof header) % header.id_bytes == 0;
  if (!sound)
    throw_error(ErrorCode::kDataLoss,
                "{} is not a token file, or is cut off; remove it to have it made again",
                path.string());
  count_ = header.count;
  id_bytes_ = header.id_bytes;
  vocabulary_ = header.vocabulary;
  sha256_.assign(header.sha256, sizeof header.sha256);
}

std::int32_t TokenFile::operator[](std::size_t i) const {
  std::int32_t id = 0;
  read(i, {&id, 1});
  return id;
}

void TokenFile::read(std::size_t begin, std::span<std::int32_t> out) const {
  WEFT_CHECK(begin + out.size() <= count_, "tokens {}+{} of {}", begin, out.size(), count_);
  const std::byte* ids = mapped_.bytes().data() + sizeof(Header);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = 0;
    std::memcpy(&out[i], ids + (begin + i) * id_bytes_, id_bytes_);
  }
}

void TokenFile::verify() const {
  if (weft::sha256(mapped_.bytes().subspan(sizeof(Header))) != sha256_)
    throw_error(ErrorCode::kDataLoss,
                "the ids in {} do not have the hash in its header; remove it to have it made again",
                path_.string());
}

}  // namespace weft::apps
