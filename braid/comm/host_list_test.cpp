#include "braid/comm/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Hosts = std::vector<std::string>;

TEST(HostList, ExpandsEveryFormSlurmWrites) {
  EXPECT_EQ(expand_host_list("login1"), Hosts({"login1"}));
  EXPECT_EQ(expand_host_list("a,b"), Hosts({"a", "b"}));
  EXPECT_EQ(expand_host_list("node[01-03,7],gpu"), Hosts({"node01", "node02", "node03", "node7", "gpu"}));
  EXPECT_EQ(expand_host_list("n[8-11]"), Hosts({"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_host_list("n[008-010].cluster"), Hosts({"n008.cluster", "n009.cluster", "n010.cluster"}));
  EXPECT_EQ(expand_host_list("r[1-2]c[3,5]"), Hosts({"r1c3", "r1c5", "r2c3", "r2c5"}));
  EXPECT_EQ(expand_host_list("x-[5]-y"), Hosts({"x-5-y"}));
}

TEST(HostList, RejectsDamagedLists) {
  for (const char* text : {"", "a,", "a[1", "a1]", "a[1[2]]", "a[2-1]", "a[x]", "a[1-2-3]", "a[]",
                           "a[0-999999]", "a[0-999]b[0-999]", "a[-3]"}) {
    SCOPED_TRACE(text);
    try {
      expand_host_list(text);
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(cat("'", text, "'")));
    }
  }
}

TEST(TasksPerNode, ExpandsRepeats) {
  EXPECT_THAT(expand_tasks_per_node("4"), ElementsAre(4));
  EXPECT_THAT(expand_tasks_per_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
}

TEST(TasksPerNode, RejectsDamagedLists) {
  for (const char* text : {"", "2(x", "2(x)", "x", "0", "2(x0)", "2(x3),", "-1", "1(x999999999)"}) {
    EXPECT_THROW(expand_tasks_per_node(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace braid::comm
