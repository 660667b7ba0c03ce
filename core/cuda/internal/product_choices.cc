#include "core/cuda/internal/product_choices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/private_file.h"

namespace weft::cuda {
namespace {

namespace fs = std::filesystem;

/// Size limit of the file. A model has some 100 products, of 300 bytes each.
constexpr std::size_t kMostBytes = std::size_t{8} << 20;
/// Number of polls, 5 ms apart, after which a lock counts as abandoned. A holder measures for
/// milliseconds.
constexpr int kLockPolls = 4'000;
constexpr const char* kTwoParts = "two parts";
constexpr std::size_t kDigits = 16;  ///< Hexadecimal digits of one word of an algorithm.

std::string to_text(const ProductChoice& choice) {
  if (!choice.algorithm) return kTwoParts;
  std::string text;
  for (const std::uint64_t word : *choice.algorithm) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<ProductAlgorithm> algorithm_of(std::string_view text) {
  ProductAlgorithm algorithm{};
  if (text.size() != algorithm.size() * kDigits) return std::nullopt;
  for (std::uint64_t& word : algorithm) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + kDigits, word, 16);
    if (error != std::errc{} || end != text.data() + kDigits) return std::nullopt;
    text.remove_prefix(kDigits);
  }
  return algorithm;
}

std::uint32_t checksum(std::string_view product, std::string_view algorithm) {
  const std::string both = fmt::format("{}\n{}", product, algorithm);
  return crc32c(std::as_bytes(std::span(both)));
}

template <typename T>
std::optional<T> member(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return std::nullopt;
  } else {
    if (!found->is_number()) return std::nullopt;
  }
  return found->get<T>();
}

/// Adds the choice of one line. Returns false if the line is damaged.
bool parse_line(std::string_view line, ProductChoiceMap& choices) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto product = member<std::string>(object, "product");
  const auto algorithm = member<std::string>(object, "algorithm");
  const auto microseconds = member<double>(object, "microseconds");
  const auto sum = member<double>(object, "crc32c");
  if (!product || !algorithm || !microseconds || sum != checksum(*product, *algorithm))
    return false;
  ProductChoice choice{.algorithm = algorithm_of(*algorithm), .microseconds = *microseconds};
  if (!choice.algorithm && *algorithm != kTwoParts) return false;
  choices.try_emplace(*product, choice);
  return true;
}

/// Returns the file's text; "" if there is none. Throws Error like open_trusted().
std::string read_text(const fs::path& path) {
  const auto fail = [&](const char* why) {
    throw_error(ErrorCode::kUnavailable, "cannot read {}: {}", path.string(), why);
  };
  const int file = open_trusted(path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) return {};
  if (file < 0) fail(std::strerror(errno));
  std::string text;
  char part[1 << 14];
  ssize_t got = 0;
  while (text.size() <= kMostBytes && (got = ::read(file, part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(got));
  const int why = errno;
  ::close(file);
  if (got < 0) fail(std::strerror(why));
  if (text.size() > kMostBytes) fail("it is larger than 8 MiB; remove it");
  return text;
}

}  // namespace

std::string to_json_lines(const ProductChoiceMap& choices) {
  std::string text;
  for (const auto& [product, choice] : choices) {
    const std::string algorithm = to_text(choice);
    const nlohmann::ordered_json line = {{"product", product},
                                         {"algorithm", algorithm},
                                         {"microseconds", choice.microseconds},
                                         {"crc32c", checksum(product, algorithm)}};
    text += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return text;
}

ReadChoices parse_product_choices(std::string_view text) {
  ReadChoices read;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0 && !parse_line(text.substr(0, end), read.choices)) ++read.damaged_lines;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return read;
}

ProductChoiceFile::ProductChoiceFile(fs::path path, std::function<void(const std::string&)> note)
    : path_(std::move(path)), note_(std::move(note)) {}

bool ProductChoiceFile::try_to(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    usable_ = false;
    note_(fmt::format("the choices of matrix products are not stored: {}", error.message()));
  }
  return usable_;
}

void ProductChoiceFile::read() {
  if (path_.empty())
    throw_error(ErrorCode::kUnavailable,
                "no folder can be used for them; set HOME or "
                "XDG_CACHE_HOME");
  ReadChoices read = parse_product_choices(read_text(path_));
  if (read.damaged_lines > 0)
    note_(fmt::format("{} has {} damaged line{}, which will be replaced", path_.string(),
                      read.damaged_lines, read.damaged_lines == 1 ? "" : "s"));
  choices_ = std::move(read.choices);
  was_read_ = true;
}

std::optional<ProductChoice> ProductChoiceFile::known(const std::string& product,
                                                      const Accepts& accepts) const {
  const auto found = choices_.find(product);
  if (found == choices_.end() || !accepts(found->second)) return std::nullopt;
  return found->second;
}

std::optional<ProductChoice> ProductChoiceFile::find(const std::string& product,
                                                     const Accepts& accepts) {
  if (usable_ && !was_read_) try_to([&] { read(); });
  return known(product, accepts);
}

std::optional<ProductChoice> ProductChoiceFile::find_or_store(
    const std::string& product, const Accepts& accepts,
    const std::function<std::optional<ProductChoice>()>& measure) {
  std::optional<FileLock> lock;
  const auto lock_and_read = [&] {
    if (path_.empty()) read();
    create_private_folder(path_.parent_path());
    const fs::path beside = path_.string() + ".lock";  // stays, while the file is replaced
    lock = FileLock::acquire(beside, [polls = 0]() mutable { return ++polls > kLockPolls; });
    if (!lock)
      throw_error(ErrorCode::kUnavailable,
                  "another process has locked {} for {} s; find it with `fuser`, and end it",
                  beside.string(), kLockPolls / 200);
    read();
  };
  if (!usable_ || !try_to(lock_and_read)) return std::nullopt;
  if (const auto stored = known(product, accepts)) return stored;
  const std::optional<ProductChoice> measured = measure();
  if (!measured) return std::nullopt;
  ProductChoiceMap changed = choices_;
  changed.insert_or_assign(product, *measured);
  if (!try_to([&] { write_durably(path_, to_json_lines(changed)); })) return std::nullopt;
  choices_ = std::move(changed);
  return measured;
}

}  // namespace weft::cuda
