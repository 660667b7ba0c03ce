#include "apps/select_input/row_contents.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "apps/classification/idx_file.h"
#include "apps/classification/image_folder.h"
#include "apps/data/corpus.h"
#include "apps/data/png_reader.h"
#include "apps/data/text_dataset.h"
#include "apps/data/text_files.h"
#include "apps/select_input/row_origin.h"
#include "core/base/error.h"

namespace weft::apps {
namespace {

std::map<std::uint64_t, RowOrigin> places_of(const PreparedInput& prepared,
                                             const std::set<std::uint64_t>& rows) {
  RowOriginReader file(prepared.places());
  std::map<std::uint64_t, RowOrigin> places;
  for (const std::uint64_t row : rows) places.emplace(row, file.at(row));
  return places;
}

/// Converts the values of a picture, three per pixel.
Picture picture_of(const std::vector<std::uint8_t>& values, int height, int width) {
  Picture picture(width, height);
  const std::uint8_t* value = values.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x, value += 3) picture.set(x, y, {value[0], value[1], value[2]});
  }
  return picture;
}

/// Enlarges small pictures by an integer factor and shrinks large ones.
Picture fitted(const Picture& picture, int side) {
  const int longer = std::max(picture.width(), picture.height());
  if (longer <= side) return picture.enlarged(side / longer);
  const auto shrunk = [&](int pixels) {
    return std::max(1, static_cast<int>(std::int64_t{pixels} * side / longer));
  };
  const int height = shrunk(picture.height()), width = shrunk(picture.width());
  return picture_of(resample_picture(picture, height, width, 3), height, width);
}

/// Returns picture `index` of an IDX file.
Picture picture_in(const IdxArray& pictures, std::size_t index, const std::string& path) {
  if (pictures.shape.size() != 3 || index >= pictures.shape[0])
    throw_error(ErrorCode::kDataLoss, "{} has no picture {}: prepare the input again", path, index);
  const std::size_t height = pictures.shape[1], width = pictures.shape[2];
  Picture picture(static_cast<int>(width), static_cast<int>(height));
  const std::uint8_t* value = pictures.values.data() + index * height * width;
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x, ++value) picture.set(x, y, {*value, *value, *value});
  }
  return picture;
}

}  // namespace

std::map<std::uint64_t, Picture> pictures_of_rows(const SelectInput& input,
                                                  const PreparedInput& prepared,
                                                  const std::set<std::uint64_t>& rows, int side) {
  std::map<std::uint64_t, Picture> pictures;
  std::map<std::string, IdxArray> files;  // IDX files of the data set, read once
  for (const auto& [row, place] : places_of(prepared, rows)) {
    if (input.path != "fashion-mnist") {
      pictures.emplace(row, fitted(read_png(place.path), side));
      continue;
    }
    if (!files.contains(place.path)) files.emplace(place.path, read_idx(place.path));
    pictures.emplace(
        row, fitted(picture_in(files.at(place.path), place.offset.value_or(0), place.path), side));
  }
  return pictures;
}

std::map<std::uint64_t, std::string> texts_of_rows(const SelectInput& input,
                                                   const PreparedInput& prepared,
                                                   const std::set<std::uint64_t>& rows) {
  std::map<std::uint64_t, std::string> texts;
  const auto places = places_of(prepared, rows);
  if (input.pieces) {
    TextDataConfig data = input.pieces->data;
    data.text = input.path;
    const TextDataset dataset = TextDataset::prepare(data);
    for (const auto& [row, place] : places) {
      std::vector<std::int32_t> tokens(place.length.value_or(0));
      if (place.offset.value_or(0) + tokens.size() > dataset.train.size())
        throw_error(ErrorCode::kDataLoss, "{} has no piece {}: prepare the input again", place.path,
                    row);
      dataset.train.read(place.offset.value_or(0), tokens);
      texts.emplace(row, dataset.tokenizer->decode(tokens));
    }
    return texts;
  }
  std::string path, text;  // Text of the previous row, as the next row is often in the same file.
  for (const auto& [row, place] : places) {
    if (place.path != path) text = place.path == "kjv" ? kjv_text() : read_text(place.path);
    path = place.path;
    if (place.offset.value_or(0) + place.length.value_or(0) > text.size())
      throw_error(ErrorCode::kDataLoss, "{} has no part {}: prepare the input again", path, row);
    texts.emplace(row, text.substr(place.offset.value_or(0), place.length.value_or(0)));
  }
  return texts;
}

}  // namespace weft::apps
