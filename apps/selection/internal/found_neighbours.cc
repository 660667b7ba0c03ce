#include "apps/selection/internal/found_neighbours.h"

#include <algorithm>

#include "core/codec/bytes.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

void FoundNeighbours::write(std::uint32_t shard, std::uint32_t probes,
                            const NeighbourLists& lists) const {
  ByteWriter bytes;
  for (const std::vector<Neighbour>& list : lists) {
    bytes.write(static_cast<std::uint32_t>(list.size()));
    for (const Neighbour& neighbour : list) {
      bytes.write(neighbour.id);
      bytes.write(neighbour.similarity);
    }
  }
  WorkerSession::write_state(file(shard, probes), bytes.bytes());
}

NeighbourLists FoundNeighbours::read(std::uint32_t shard, std::uint32_t probes) const {
  if (!input_.has_vectors())
    return input_.read_neighbours(session_.first_of(shard), session_.rows_of(shard),
                                  settings_.rule());
  const std::vector<std::byte> bytes = read_spilled(file(shard, probes));
  ByteReader reader(bytes);
  NeighbourLists lists(session_.rows_of(shard));
  for (std::vector<Neighbour>& list : lists) {
    list.resize(std::min<std::size_t>(reader.read<std::uint32_t>(), settings_.count));
    for (Neighbour& neighbour : list) {
      neighbour.id = reader.read<PointId>();
      neighbour.similarity = reader.read<std::uint16_t>();
    }
  }
  reader.expect_end();
  return lists;
}

}  // namespace weft::apps
