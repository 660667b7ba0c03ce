#include "apps/svg/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "apps/svg/plot.h"

namespace weft::apps {
namespace {

using ::testing::HasSubstr;

TEST(Svg, TicksAreRoundAndTextIsEscaped) {
  EXPECT_EQ(round_ticks(0, 97, 5), (std::vector<double>{0, 20, 40, 60, 80}));
  EXPECT_EQ(round_ticks(3.4, 6.9, 7).front(), 3.5);
  EXPECT_EQ(tick_label(3.5, 0.5), "3.5");
  EXPECT_EQ(tick_label(150, 50), "150");
  Svg svg(10, 10);
  svg.text(0, 0, "a < b & \"c\"");
  EXPECT_THAT(svg.str(), HasSubstr("a &lt; b &amp; &quot;c&quot;"));
}

TEST(Svg, GrowsWithATitleOrALegendThatIsWiderThanThePlot) {
  Svg svg(100, 50);
  svg.text(10, 20, "short");
  EXPECT_EQ(svg.width(), 100);
  svg.text(10, 20, "a title of forty letters, in bold print...", Svg::Anchor::kStart,
           "font-size='14' font-weight='bold'");
  EXPECT_GT(svg.width(), 10 + 40 * 8);
  const double width = svg.width();
  svg.text(16, 20,
           "a caption of an axis that stands upright, however long it may be, grows nothing",
           Svg::Anchor::kMiddle, "transform='rotate(-90 16 20)'");
  EXPECT_EQ(svg.width(), width);
  draw_legend(svg, 10, 30,
              {{"#000", "broadcast_search"},
               {"#111", "local_allgather"},
               {"#222", "global_allgather"},
               {"#333", "broadcast_naive"}});
  EXPECT_GT(svg.width(), 10 + 4 * 15 * 7);
}

TEST(PlotRectangle, MapsTheEndsOfAScaleToItsEdges) {
  const PlotRectangle area{10, 20, 100, 50};
  EXPECT_EQ(area.x_of(3, 3, 5), 10);
  EXPECT_EQ(area.x_of(5, 3, 5), 110);
  EXPECT_EQ(area.y_of(3, 3, 5), 70);
  EXPECT_EQ(area.y_of(4, 3, 5), 45);
}

}  // namespace
}  // namespace weft::apps
