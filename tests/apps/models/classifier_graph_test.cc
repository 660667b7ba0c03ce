#include "apps/models/classifier_graph.h"

#include <gtest/gtest.h>

#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

TEST(ClassifierGraph, AnMlpHasABlockForEachLayer) {
  ClassifierShape shape{.hidden = {5, 7}, .classes = 4, .batch = 3};
  const ClassifierGraph model = classifier_graph(shape, 1.0);
  EXPECT_EQ(model.graph.num_blocks(), 3);
  EXPECT_EQ(model.graph.num_parameter_elements(), 784 * 5 + 5 + 5 * 7 + 7 + 7 * 4 + 4);
  EXPECT_EQ(to_string(model.graph.value(model.features).type), "f32[3,7]");
  EXPECT_EQ(to_string(model.graph.value(model.logits).type), "f32[3,4]");
}

TEST(ClassifierGraph, ACnnHalvesThePictureAndItsFirstLinearLayerReadsAllOfIt) {
  ClassifierShape shape{.kind = ClassifierShape::Kind::kCnn,
                        .height = 9,
                        .width = 6,
                        .colours = 3,
                        .channels = {4, 8},
                        .hidden = {5, 6},
                        .classes = 2,
                        .batch = 3,
                        .precision = DType::kBF16};
  const ClassifierGraph model = classifier_graph(shape, 1.0);
  EXPECT_EQ(model.graph.num_blocks(), 5);
  // 9 x 6, 5 x 3, 3 x 2
  EXPECT_EQ(model.graph.num_parameter_elements(),
            9 * 3 * 4 + 4 + 9 * 4 * 8 + 8 + 3 * 2 * 8 * 5 + 5 + 5 * 6 + 6 + 6 * 2 + 2);
  EXPECT_EQ(to_string(model.graph.value(model.logits).type), "bf16[3,1,1,2]");
}

TEST(ClassifierGraph, SizesThatDoNotFitAreRefused) {
  const auto refused = [](const ClassifierShape& shape) {
    return !test::error_message(ErrorCode::kInvalidArgument, [&] {
              classifier_graph(shape, 1.0);
            }).empty();
  };
  EXPECT_TRUE(refused({.hidden = {}}));
  EXPECT_TRUE(refused({.hidden = {0}}));
  EXPECT_TRUE(refused({.classes = 1}));
  EXPECT_TRUE(refused({.channels = {3}}));
  EXPECT_TRUE(refused({.kind = ClassifierShape::Kind::kCnn}));
}

}  // namespace
}  // namespace weft::apps
