// Parses ELF files (System V ABI, chapters 4 and 5). Every read is checked against the file's size.
#include "core/cuda_support/internal/needed_libraries.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace weft {
namespace {

class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw_error(ErrorCode::kNotFound, "{} cannot be read", path.string());
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    header_ = read<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      throw_incompatible();
    }
  }

  std::vector<Elf64_Phdr> segments() const {
    std::vector<Elf64_Phdr> all;
    for (std::uint64_t i = 0; i < header_.e_phnum; ++i)
      all.push_back(read<Elf64_Phdr>(header_.e_phoff + i * header_.e_phentsize));
    return all;
  }
  template <typename T>
  T read(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) throw_incompatible();
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) throw_incompatible();
    const std::size_t end = bytes_.find('\0', offset);
    if (end == std::string::npos) throw_incompatible();
    return bytes_.substr(offset, end - offset);
  }
  [[noreturn]] void throw_incompatible() const {
    throw_error(ErrorCode::kIncompatible, "{} is not a 64-bit little-endian shared library",
                path_.string());
  }

 private:
  const std::filesystem::path path_;
  std::string bytes_;
  Elf64_Ehdr header_{};
};

}  // namespace

std::vector<std::string> needed_libraries(const std::filesystem::path& library) {
  const ElfFile file(library);
  const std::vector<Elf64_Phdr> segments = file.segments();
  std::vector<std::uint64_t> names;  // offsets in the string table
  std::optional<std::uint64_t> strings;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      const auto entry = file.read<Elf64_Dyn>(segment.p_offset + at);
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
    }
  }
  if (names.empty()) return {};
  // The dynamic section gives the string table by its address in memory.
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || !strings || *strings < segment.p_vaddr ||
        *strings - segment.p_vaddr >= segment.p_filesz)
      continue;
    std::vector<std::string> needed;
    for (const std::uint64_t name : names)
      needed.push_back(file.text(segment.p_offset + (*strings - segment.p_vaddr) + name));
    return needed;
  }
  file.throw_incompatible();
}

}  // namespace weft
