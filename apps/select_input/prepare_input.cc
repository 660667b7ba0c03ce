#include "apps/select_input/prepare_input.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/select_input/internal/preparation.h"
#include "apps/selection/npy_file.h"
#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr int kFormat = 1;  // increased whenever the same input gives other files

std::string request_of(const SelectInput& input, InputKind kind) {
  const std::string settings = kind == InputKind::kVectors    ? request_of_vectors(input)
                               : kind == InputKind::kPictures ? request_of_pictures(input)
                                                              : request_of_texts(input);
  const std::string all =
      fmt::format("{}|{}|{}|{}|{}", kFormat, to_string(kind), input.path, input.seed, settings);
  return sha256(std::as_bytes(std::span(all)));
}

std::string json_of(const PreparedInput& prepared, const std::string& path) {
  const nlohmann::ordered_json json = {{"input", path},
                                       {"kind", to_string(prepared.kind)},
                                       {"rows", prepared.rows},
                                       {"width", prepared.width},
                                       {"flat", prepared.has_uniform_utility},
                                       {"has_ids", prepared.has_ids},
                                       {"has_neighbours", prepared.has_neighbours},
                                       {"made_of", prepared.provenance},
                                       {"of", prepared.rows},
                                       {"data_digest", prepared.data_digest},
                                       {"data", prepared.data_section},
                                       {"digest", prepared.digest},
                                       {"request", prepared.request_digest},
                                       {"seconds", prepared.seconds}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

InputKind kind_named(const std::string& name) {
  for (const InputKind kind : {InputKind::kVectors, InputKind::kPictures, InputKind::kTexts}) {
    if (to_string(kind) == name) return kind;
  }
  throw_error(ErrorCode::kDataLoss,
              "there is no input of the kind '{}'; kinds are vectors, pictures and texts", name);
}

/// Returns the existing result if it is complete and of this request.
std::optional<PreparedInput> find(const fs::path& folder, const std::string& request) {
  try {
    std::optional<PreparedInput> found = read_prepared_input(folder);
    if (!found || found->request_digest != request) return std::nullopt;
    found->was_reused = true;
    return found;
  } catch (const Error&) {
    return std::nullopt;  // damaged, so prepared again
  }
}

}  // namespace

std::optional<PreparedInput> read_prepared_input(const fs::path& folder) {
  PreparedInput prepared{.folder = folder};
  std::ifstream stream(prepared.description(), std::ios::binary);
  if (!stream) return std::nullopt;
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    prepared.kind = kind_named(json.at("kind").get<std::string>());
    json.at("rows").get_to(prepared.rows);
    json.at("width").get_to(prepared.width);
    json.at("flat").get_to(prepared.has_uniform_utility);
    json.at("has_ids").get_to(prepared.has_ids);
    json.at("has_neighbours").get_to(prepared.has_neighbours);
    json.at("made_of").get_to(prepared.provenance);
    json.at("data_digest").get_to(prepared.data_digest);
    json.at("data").get_to(prepared.data_section);
    json.at("digest").get_to(prepared.digest);
    json.at("request").get_to(prepared.request_digest);
    json.at("seconds").get_to(prepared.seconds);
  } catch (const std::exception& error) {
    throw_error(ErrorCode::kDataLoss, "{} is damaged: {}; remove it, to prepare the input again",
                prepared.description().string(), error.what());
  }
  const auto has_vectors = [&] {
    const NpyFile vectors(prepared.vectors());
    return vectors.rows() == prepared.rows && vectors.columns() == prepared.width;
  };
  if ((prepared.width > 0 && !has_vectors()) ||
      (prepared.has_neighbours && NpyFile(prepared.similarities()).rows() != prepared.rows) ||
      (!prepared.has_uniform_utility && NpyFile(prepared.utility()).rows() != prepared.rows))
    throw_error(ErrorCode::kDataLoss,
                "{} does not fit the files beside it; remove it, to prepare "
                "the input again",
                prepared.description().string());
  return prepared;
}

PreparedInput prepare_input(const SelectInput& input, const fs::path& folder, Device& device,
                            const PrepareProgress& progress, const std::stop_token& stop) {
  const InputKind kind = kind_of_input(input.path);
  if (!is_parquet(input.path) && !(input.id.empty() && input.neighbours.empty()))
    throw_error(ErrorCode::kInvalidArgument,
                "input.id and a column in input.neighbors apply to Parquet files only, and {} is "
                "not one: remove them",
                input.path);
  const std::string request = request_of(input, kind);
  if (auto found = find(folder, request)) return *std::move(found);
  PreparedInput result{.folder = folder, .kind = kind, .request_digest = request};
  make_folders(folder, "give another `scratch`");
  // Removes the description first: without it, the other files are ignored.
  for (const fs::path& file : {result.description(), result.vectors(), result.utility(),
                               result.neighbours(), result.similarities(), result.places()})
    fs::remove(file);
  Preparation preparation(input, device, progress, stop, result);
  switch (kind) {
    case InputKind::kVectors: prepare_vectors(preparation); break;
    case InputKind::kPictures: prepare_pictures(preparation); break;
    case InputKind::kTexts: prepare_texts(preparation); break;
  }
  write_durably(result.description(), json_of(result, input.path));
  return result;
}

}  // namespace weft::apps
