#include "core/tensor/region_codec.h"

namespace weft {

void codec<Interval>::write(ByteWriter& writer, const Interval& value) {
  writer.write(value.begin);
  writer.write(value.end);
}

Interval codec<Interval>::read(ByteReader& reader) {
  Interval value;
  value.begin = reader.read<std::int64_t>();
  value.end = reader.read<std::int64_t>();
  return value;
}

void codec<Region>::write(ByteWriter& writer, const Region& value) {
  writer.write_count(value.rank());
  for (const Interval& interval : value.intervals()) codec<Interval>::write(writer, interval);
}

Region codec<Region>::read(ByteReader& reader) {
  auto intervals = codec<std::vector<Interval>>::read(reader);
  for (const Interval& interval : intervals)
    if (interval.begin >= interval.end) reader.fail("a region with an empty or reversed interval");
  return Region(std::move(intervals));
}

void codec<TensorType>::write(ByteWriter& writer, const TensorType& value) {
  codec<DType>::write(writer, value.dtype);
  codec<Shape>::write(writer, value.shape);
}

TensorType codec<TensorType>::read(ByteReader& reader) {
  TensorType value;
  value.dtype = codec<DType>::read(reader);
  value.shape = codec<Shape>::read(reader);
  for (const std::int64_t extent : value.shape)
    if (extent < 0) reader.fail("a tensor with a negative extent");
  return value;
}

}  // namespace weft
