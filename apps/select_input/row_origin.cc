#include "apps/select_input/row_origin.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace weft::apps {

std::string RowOrigin::json() const {
  nlohmann::ordered_json json;
  if (id) std::visit([&](const auto& value) { json["id"] = value; }, *id);
  json["path"] = path;
  if (offset) json["offset"] = *offset;
  if (length) json["length"] = *length;
  if (!label.empty()) json["label"] = label;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RowOriginReader::RowOriginReader(std::filesystem::path path)
    : path_(std::move(path)), stream_(path_) {
  if (!stream_)
    throw_error(ErrorCode::kNotFound, "cannot read {}; prepare the input again", path_.string());
}

RowOrigin RowOriginReader::at(std::uint64_t row) {
  WEFT_CHECK(row + 1 >= next_, "row {} after row {}", row, next_);
  while (next_ <= row && std::getline(stream_, line_)) ++next_;
  try {
    if (next_ <= row) throw_error(ErrorCode::kDataLoss, "it ends after {} rows", next_);
    const nlohmann::json json = nlohmann::json::parse(line_);
    RowOrigin place{.path = json.at("path").get<std::string>()};
    if (json.contains("offset")) place.offset = json["offset"].get<std::uint64_t>();
    if (json.contains("length")) place.length = json["length"].get<std::uint64_t>();
    place.label = json.value("label", "");
    if (json.contains("id") && json["id"].is_string()) place.id = json["id"].get<std::string>();
    else if (json.contains("id")) place.id = json["id"].get<std::int64_t>();
    return place;
  } catch (const std::exception& error) {
    throw_error(ErrorCode::kDataLoss, "{} is damaged at row {}: {}; prepare the input again",
                path_.string(), row, error.what());
  }
}

}  // namespace weft::apps
