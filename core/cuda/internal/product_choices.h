#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace weft::cuda {

/// Bytes of a cublasLtMatmulAlgo_t. They mean the same to every process with the same version of
/// cuBLASLt.
using ProductAlgorithm = std::array<std::uint64_t, 8>;

/// Fastest way to compute a matrix product, and its measured time.
struct ProductChoice {
  std::optional<ProductAlgorithm> algorithm;  ///< Null: two parts, the product and its epilogue.
  double microseconds = 0;

  bool operator==(const ProductChoice&) const = default;
};

/// Choices by a text that names GPU, library and product.
using ProductChoiceMap = std::map<std::string, ProductChoice, std::less<>>;

/// Choices of a text, and the number of its lines that are damaged.
struct ReadChoices {
  ProductChoiceMap choices;
  int damaged_lines = 0;
};

// Text form: a JSON object a line, with a checksum over product and algorithm.
std::string to_json_lines(const ProductChoiceMap& choices);
ReadChoices parse_product_choices(std::string_view text);

/// File with the choices of all processes of this user on one machine. The first stored choice for
/// a product stays, so that later runs and other processes compute equal bits.
///
/// A file that cannot be read or written is reported once by `note`, and not used any more. Not
/// thread-safe; several objects and processes may use one file at the same time.
class ProductChoiceFile final {
 public:
  /// `path` may be empty: no folder can have the file.
  ProductChoiceFile(std::filesystem::path path, std::function<void(const std::string&)> note);

  using Accepts = std::function<bool(const ProductChoice&)>;
  /// Returns the stored choice, if there is one that `accepts`. Reads the file on the first call.
  std::optional<ProductChoice> find(const std::string& product, const Accepts& accepts);
  /// Returns the stored choice, if there is one that `accepts`; else the result of `measure`, which
  /// is stored unless it is null. The file is locked meanwhile: of several processes that need the
  /// choice, one measures. Returns null if the file cannot be used.
  std::optional<ProductChoice> find_or_store(
      const std::string& product, const Accepts& accepts,
      const std::function<std::optional<ProductChoice>()>& measure);
  /// Returns true unless the file turned out to be unusable.
  bool usable() const { return usable_; }

 private:
  void read();
  /// Runs work on the file. Returns false, after a note, if it throws Error.
  bool try_to(const std::function<void()>& work);
  std::optional<ProductChoice> known(const std::string& product, const Accepts& accepts) const;

  const std::filesystem::path path_;
  const std::function<void(const std::string&)> note_;
  bool usable_ = true, was_read_ = false;
  ProductChoiceMap choices_;
};

}  // namespace weft::cuda
