// Tests reading a graph's input without workers.
#include "apps/selection/internal/graph_input_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/apps/selection/npy_writing.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

GraphInput input_of(const std::string& vectors, const std::string& utilities = "") {
  GraphInput input;
  input.vectors = vectors;
  input.utilities = utilities;
  return input;
}

class GraphInputReaderTest : public testing::Test {
 protected:
  std::string write(const std::string& name, std::size_t columns,
                    const std::vector<float>& values) const {
    test::write_npy(scratch.path() / name, columns, values);
    return (scratch.path() / name).string();
  }
  const test::ScratchFolder scratch;
};

TEST_F(GraphInputReaderTest, VectorsHaveLengthOneAndUtilitiesAreZeroIfTheInputHasNone) {
  const GraphInputReader reader(input_of(write("v.npy", 2, {3, 4, 0, 2, -5, 0})), {}, 1);
  EXPECT_EQ(reader.points(), 3U);
  EXPECT_EQ(reader.dimensions(), 2U);
  EXPECT_FALSE(reader.has_utilities());
  const VectorBlock rows = reader.read_vectors(1, 3);
  EXPECT_EQ(rows.ids, (std::vector<PointId>{1, 2}));
  EXPECT_EQ(rows.values, (std::vector<float>{0, 1, -1, 0}));
  const VectorBlock chosen = reader.read_vectors({2, 0});
  EXPECT_EQ(chosen.ids, (std::vector<PointId>{2, 0}));
  EXPECT_EQ(std::vector(chosen.values.begin(), chosen.values.begin() + 2),
            (std::vector<float>{-1, 0}));
  EXPECT_EQ(reader.read_utilities(0, 3), (std::vector<float>{0, 0, 0}));
}

TEST_F(GraphInputReaderTest, ADigestDependsOnTheRowsOfTheShardAlone) {
  const std::string vectors = write("v.npy", 1, {1, 2, 3, 4});
  const GraphInputReader one(input_of(vectors, write("u.npy", 1, {1, 2, 3, 4})), {}, 1);
  const GraphInputReader other(input_of(vectors, write("w.npy", 1, {1, 2, 3, 5})), {}, 1);
  const InputShard first = one.validate(0, 0, 2), second = one.validate(1, 2, 4);
  EXPECT_EQ(first.digest, other.validate(0, 0, 2).digest);
  EXPECT_NE(second.digest, other.validate(1, 2, 4).digest);
  EXPECT_EQ(second.shard, 1U);
  EXPECT_EQ(second.least_utility, 3);
  EXPECT_EQ(second.largest_utility, 4);
}

TEST_F(GraphInputReaderTest, FilesThatDoNotMatchAreNamed) {
  const std::string vectors = write("v.npy", 1, {1, 2, 3}), utilities = write("u.npy", 1, {1, 2});
  EXPECT_EQ(test::error_message(ErrorCode::kInvalidArgument,
                                [&] { GraphInputReader(input_of(vectors, utilities), {}, 1); }),
            utilities + " has 2 rows, but " + vectors + " has 3: both need one row per point");
}

}  // namespace
}  // namespace weft::apps
