#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/run_files/safetensors.h"
#include "apps/select_input/internal/preparation.h"
#include "apps/selection/neighbours.h"
#include "apps/selection/npy_file.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

void prepare_npy(Preparation& preparation) {
  const std::string& path = preparation.input.path;
  const NpyFile file(path);
  check_shape(path, file.rows(), file.columns());
  std::string digest;
  std::vector<float> block;
  for (std::uint64_t first = 0; first < file.rows(); first += kBlockRows) {
    preparation.report_progress("check vectors", first, file.rows());
    block.resize(std::min<std::uint64_t>(kBlockRows, file.rows() - first) * file.columns());
    file.read(first, block);
    digest = digest_with(digest, std::as_bytes(std::span(block)));
    require_valid_vectors(block, file.columns(), path, first);
  }
  preparation.link_vectors(path, file.rows(), file.columns(), digest);
}

TensorView tensor_of(const SafetensorsFile& file, const std::string& path, const std::string& name,
                     std::string_view key) {
  const std::vector<std::string> names = file.names();
  if (std::ranges::find(names, name) == names.end())
    throw_error(ErrorCode::kInvalidArgument,
                "{} has no tensor '{}': let input.{} be one of its tensors, which are {}", path,
                name, key, fmt::join(names, ", "));
  try {
    return file.tensor(name);
  } catch (const Error& error) {
    throw_error(error.code(), "{}: {}", path, error.message());
  }
}

/// Tensor of vectors, and its name in messages.
struct NamedTensor {
  TensorView tensor;
  std::string source;
  std::uint64_t rows() const { return static_cast<std::uint64_t>(tensor.shape[0]); }
  std::uint64_t width() const { return static_cast<std::uint64_t>(tensor.shape[1]); }
};

NamedTensor vectors_of(const SafetensorsFile& file, const SelectInput& input) {
  std::string name = input.vector;
  if (name.empty()) {
    const std::vector<std::string> names = file.names();
    if (names.empty())
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has no tensors: give a file with a tensor of two dimensions, a row for each "
                  "vector",
                  input.path);
    if (names.size() != 1)
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has {} tensors: say with input.vector which of them the vectors are: {}",
                  input.path, names.size(), fmt::join(names, ", "));
    name = names.front();
  }
  NamedTensor vectors{tensor_of(file, input.path, name, "vector"),
                      fmt::format("{}, tensor {}", input.path, name)};
  if (vectors.tensor.shape.size() != 2)
    throw_error(ErrorCode::kInvalidArgument, "{} has {} dimensions; rows of vectors have 2",
                vectors.source, vectors.tensor.shape.size());
  check_shape(vectors.source, vectors.rows(), vectors.width());
  return vectors;
}

void prepare_safetensors(Preparation& preparation, const SafetensorsFile& file) {
  const NamedTensor vectors = vectors_of(file, preparation.input);
  const std::uint64_t rows = vectors.rows(), width = vectors.width();
  preparation.begin_vectors(width);
  for (std::uint64_t first = 0; first < rows; first += kBlockRows) {
    preparation.report_progress("read vectors", first, rows);
    const auto values = vectors.tensor.values.subspan(
        first * width, std::min<std::uint64_t>(kBlockRows, rows - first) * width);
    std::vector<float> block(values.begin(), values.end());
    require_valid_vectors(block, width, vectors.source, first);
    preparation.append(block);
    file.release_pages(values);
  }
  preparation.commit_vectors();
}

}  // namespace

std::string request_of_vectors(const SelectInput& input) {
  std::vector<fs::path> files = {input.path};
  if (is_parquet(input.path)) files = parquet_files(input.path);
  if (is_npy(input.utility)) files.emplace_back(input.utility);
  return fmt::format("{}|{}|{}|{}|{}", digest_of_files(files), input.vector, input.utility,
                     input.id, input.neighbours);
}

std::optional<InputSize> size_of_input(const SelectInput& input) {
  if (kind_of_input(input.path) != InputKind::kVectors) return std::nullopt;
  if (is_parquet(input.path)) return InputSize{rows_of_parquet(input), 0};
  if (is_npy(input.path)) {
    const NpyFile file(input.path);
    check_shape(input.path, file.rows(), file.columns());
    return InputSize{file.rows(), file.columns()};
  }
  const SafetensorsFile file(input.path);
  const NamedTensor vectors = vectors_of(file, input);
  return InputSize{vectors.rows(), vectors.width()};
}

void prepare_vectors(Preparation& preparation) {
  const SelectInput& input = preparation.input;
  const bool flat = input.utility.empty() || input.utility == "flat";
  std::optional<SafetensorsFile> tensors;
  if (is_parquet(input.path)) {
    prepare_parquet(preparation);
  } else if (is_npy(input.path)) {
    if (!flat && !is_npy(input.utility))
      throw_error(ErrorCode::kInvalidArgument,
                  "{} has vectors alone: let input.utility be a .npy file of a number for each, or "
                  "flat; '{}' is neither",
                  input.path, input.utility);
    prepare_npy(preparation);
  } else {
    tensors.emplace(input.path);
    prepare_safetensors(preparation, *tensors);
  }
  if (!flat && is_npy(input.utility)) {
    preparation.copy_utility(input.utility);
  } else if (!flat && tensors) {
    const TensorView tensor = tensor_of(*tensors, input.path, input.utility, "utility");
    preparation.write_utility(tensor.values,
                              fmt::format("{}, tensor {}", input.path, input.utility));
  }
  PreparedInput& result = preparation.result;
  result.provenance =
      fmt::format("{} of {} as they are, {}", result.has_neighbours ? "neighbours" : "vectors",
                  input.path, flat ? "flat utilities" : "utilities of " + input.utility);
  const std::string data = fmt::format("vectors|{}|{}", result.width, result.digest);
  result.data_digest = sha256(std::as_bytes(std::span(data)));
  preparation.record_duration("read");
}

}  // namespace weft::apps
