#include "apps/data/brain_dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kLeastBrainVoxels = 500;  // slices with fewer are not used

/// Mapping from a slice's row and column to a voxel of the volume.
class SliceView {
 public:
  SliceView(const Volume& volume, Plane plane) : size_(volume.size), plane_(plane) {}

  std::int64_t slices() const {
    return plane_ == Plane::kAxial ? size_[2] : plane_ == Plane::kCoronal ? size_[1] : size_[0];
  }
  std::int64_t rows() const { return plane_ == Plane::kAxial ? size_[1] : size_[2]; }
  std::int64_t columns() const { return plane_ == Plane::kSagittal ? size_[1] : size_[0]; }
  float at(const Volume& volume, std::int64_t slice, std::int64_t row, std::int64_t column) const {
    const std::int64_t up = rows() - 1 - row;
    switch (plane_) {
      case Plane::kAxial: return volume.at(column, up, slice);
      case Plane::kCoronal: return volume.at(column, slice, up);
      case Plane::kSagittal: return volume.at(slice, column, up);
    }
    return 0;
  }

 private:
  std::array<std::int64_t, 3> size_;
  Plane plane_;
};

/// Returns the most frequent region, the first one among equals.
std::uint8_t most_frequent(const std::array<int, kBrainRegions.size()>& counts) {
  return static_cast<std::uint8_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

struct Volumes {
  const Volume &head, &brain, &labels;
  const std::vector<std::uint8_t>& regions;

  std::uint8_t region(const SliceView& view, std::int64_t slice, std::int64_t row,
                      std::int64_t column) const {
    const auto label =
        static_cast<std::size_t>(std::max(0.0f, view.at(labels, slice, row, column)));
    if (label >= regions.size())
      throw_error(
          ErrorCode::kDataLoss,
          "the label volume has a label {}, but its table ends at {}; give the table of this "
          "volume",
          label, regions.size() - 1);
    if (label > 0) return regions[label];
    return view.at(brain, slice, row, column) > 0 ? 1 : 0;
  }
};

/// Returns one reduced slice, centred in a picture of height x width. Pixels outside the volume
/// have brightness 0 and region 0.
BrainSlice cut_slice(const Volumes& volumes, const SliceView& view, std::int64_t number, int reduce,
                     int height, int width) {
  BrainSlice slice;
  slice.number = number;
  const std::int64_t first_row = (view.rows() - std::int64_t{height} * reduce) / 2;
  const std::int64_t first_column = (view.columns() - std::int64_t{width} * reduce) / 2;
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) {
      float sum = 0;
      std::array<int, kBrainRegions.size()> counts{};
      for (int p = 0; p < reduce; ++p) {
        for (int q = 0; q < reduce; ++q) {
          const std::int64_t row = first_row + std::int64_t{i} * reduce + p,
                             column = first_column + std::int64_t{j} * reduce + q;
          const bool inside =
              row >= 0 && row < view.rows() && column >= 0 && column < view.columns();
          if (inside) sum += view.at(volumes.head, number, row, column);
          ++counts[inside ? volumes.region(view, number, row, column) : 0];
        }
      }
      slice.pixels.push_back(sum / (reduce * reduce));
      slice.regions.push_back(most_frequent(counts));
    }
  }
  return slice;
}

/// Returns the numbers of the slices that show brain.
std::vector<std::int64_t> usable_slices(const Volumes& volumes, const SliceView& view) {
  std::vector<std::int64_t> usable;
  for (std::int64_t s = 0; s < view.slices(); ++s) {
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < view.rows(); ++row) {
      for (std::int64_t column = 0; column < view.columns(); ++column)
        count += view.at(volumes.brain, s, row, column) > 0 ? 1 : 0;
    }
    if (count > kLeastBrainVoxels) usable.push_back(s);
  }
  return usable;
}

/// Part that a usable slice belongs to.
enum class SlicePart : std::uint8_t { kTrain, kHeldOut, kGap };

std::vector<SlicePart> split_slices(const BrainDataConfig& config, std::size_t count) {
  std::vector<SlicePart> parts(count, SlicePart::kTrain);
  const auto mark = [&](std::int64_t begin, std::int64_t end, SlicePart part) {
    for (std::int64_t i = std::max<std::int64_t>(0, begin); i < std::min<std::int64_t>(end, count);
         ++i) {
      if (parts[i] != SlicePart::kHeldOut) parts[i] = part;
    }
  };
  for (int k = 0; k < config.slabs; ++k) {
    const auto middle = static_cast<std::int64_t>((k + 0.5) * count / config.slabs);
    const std::int64_t begin = middle - config.slab / 2, end = begin + config.slab;
    mark(begin, end, SlicePart::kHeldOut);
    mark(begin - config.gap, begin, SlicePart::kGap);
    mark(end, end + config.gap, SlicePart::kGap);
  }
  return parts;
}

void normalise(BrainDataset& data) {
  double sum = 0, squares = 0, count = 0;
  for (const BrainSlice& slice : data.train) {
    for (const float pixel : slice.pixels) {
      sum += pixel;
      squares += static_cast<double>(pixel) * pixel;
    }
    count += slice.pixels.size();
  }
  const double mean = sum / count,
               deviation = std::sqrt(std::max(1e-12, squares / count - mean * mean));
  for (std::vector<BrainSlice>* slices : {&data.train, &data.held_out}) {
    for (BrainSlice& slice : *slices) {
      for (float& pixel : slice.pixels) pixel = static_cast<float>((pixel - mean) / deviation);
    }
  }
}

/// Returns frequency^-balance by region, scaled so that the mean over the training pixels is 1. 0
/// for regions that never occur.
std::vector<float> weights_of(const std::vector<double>& frequencies, double balance) {
  std::vector<double> weights;
  double mean = 0;
  for (const double f : frequencies) {
    weights.push_back(f > 0 ? std::pow(f, -balance) : 0);
    mean += f * weights.back();
  }
  std::vector<float> result;
  for (const double w : weights) result.push_back(static_cast<float>(w / mean));
  return result;
}

std::string digest_of(const BrainDataset& data) {
  std::string all;
  const auto add = [&](auto span) { all += sha256(std::as_bytes(span)); };
  for (const std::vector<BrainSlice>* slices : {&data.train, &data.held_out}) {
    for (const BrainSlice& slice : *slices) {
      all += std::to_string(slice.number) + "|";
      add(std::span(slice.pixels));
      add(std::span(slice.regions));
    }
  }
  add(std::span(data.class_weights));
  return sha256(std::as_bytes(std::span(all)));
}

}  // namespace

BrainDataset BrainDataset::load(const BrainDataConfig& config, int height, int width) {
  const fs::path folder = config.templates;
  for (const char* name : {"ch2.nii.gz", "ch2bet.nii.gz", "aal.nii.gz", "aal.nii.txt"}) {
    if (!fs::exists(folder / name))
      throw_error(ErrorCode::kFailedPrecondition,
                  "there is no {}: install the brain with `apt-get install mricron-data`, or say "
                  "where it is with `data: "
                  "{{templates: FOLDER}}`",
                  (folder / name).string());
  }
  return from_volumes(config, read_nifti(folder / "ch2.nii.gz"),
                      read_nifti(folder / "ch2bet.nii.gz"), read_nifti(folder / "aal.nii.gz"),
                      read_region_table(folder / "aal.nii.txt"), height, width);
}

BrainDataset BrainDataset::from_volumes(const BrainDataConfig& config, const Volume& head,
                                        const Volume& brain, const Volume& labels,
                                        const std::vector<std::uint8_t>& regions, int height,
                                        int width) {
  if (head.size != brain.size || head.size != labels.size)
    throw_error(ErrorCode::kInvalidArgument,
                "head, brain and labels are not on one grid: {}x{}x{}, {}x{}x{}, {}x{}x{} voxels; "
                "give volumes of one template",
                head.size[0], head.size[1], head.size[2], brain.size[0], brain.size[1],
                brain.size[2], labels.size[0], labels.size[1], labels.size[2]);
  const Volumes volumes{head, brain, labels, regions};
  const SliceView view(head, config.plane);
  BrainDataset data;
  data.height = height;
  data.width = width;
  const std::vector<std::int64_t> usable = usable_slices(volumes, view);
  const std::vector<SlicePart> parts = split_slices(config, usable.size());
  for (std::size_t i = 0; i < usable.size(); ++i) {
    if (parts[i] == SlicePart::kGap) continue;
    (parts[i] == SlicePart::kTrain ? data.train : data.held_out)
        .push_back(cut_slice(volumes, view, usable[i], config.reduce, height, width));
  }
  if (data.train.empty() || data.held_out.empty())
    throw_error(ErrorCode::kInvalidArgument,
                "of {} slices with brain, {} slabs of {} with gaps of {} leave {} to train on and "
                "{} held out: make slabs or "
                "gaps smaller",
                usable.size(), config.slabs, config.slab, config.gap, data.train.size(),
                data.held_out.size());
  normalise(data);
  data.class_weights = weights_of(frequencies(data.train), config.class_balance);
  data.digest = digest_of(data);
  return data;
}

std::vector<double> BrainDataset::frequencies(const std::vector<BrainSlice>& slices) {
  std::vector<double> result(kBrainRegions.size(), 0);
  double count = 0;
  for (const BrainSlice& slice : slices) {
    for (const std::uint8_t region : slice.regions) ++result[region];
    count += slice.regions.size();
  }
  for (double& f : result) f /= std::max(1.0, count);
  return result;
}

std::vector<std::uint8_t> BrainDataset::most_frequent_regions() const {
  std::vector<std::uint8_t> result;
  for (std::size_t i = 0; i < pixels(); ++i) {
    std::array<int, kBrainRegions.size()> counts{};
    for (const BrainSlice& slice : train) ++counts[slice.regions[i]];
    result.push_back(most_frequent(counts));
  }
  return result;
}

const BrainSlice& BrainDataset::nearest_training_slice(const BrainSlice& slice) const {
  return *std::ranges::min_element(
      train, {}, [&](const BrainSlice& other) { return std::abs(other.number - slice.number); });
}

double BrainDataset::class_prior_loss() const {
  const std::vector<double> known = frequencies(train), met = frequencies(held_out);
  double sum = 0;
  for (std::size_t c = 0; c < known.size(); ++c) sum += known[c] * class_weights[c];
  double loss = 0;
  for (std::size_t c = 0; c < known.size(); ++c) {
    // Best constant prediction for the weighted loss. Regions that training slices lack have weight
    // 0.
    const double answer = known[c] * class_weights[c] / sum;
    if (answer > 0) loss -= met[c] * class_weights[c] * std::log(answer);
  }
  return loss;
}

}  // namespace weft::apps
