/* Writes an archive with libotf2 as Score-P does: a ring of messages, collectives on all ranks and on half of
 * them, threads, regions, metrics, a clock that is not in nanoseconds, offsets of one clock, and local
 * numbers of regions.
 * Usage: otf2_writer DIRECTORY RANKS STEPS */
#include <otf2/otf2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void check(OTF2_ErrorCode code, const char *call) {
    if (code != OTF2_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, OTF2_Error_GetName(code));
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

enum { TICKS = 2500000000u, START = 1000000 };
enum { MAIN, COMPUTE, INIT, FINALIZE, SEND, RECV, ISEND, IRECV, WAIT, ALLREDUCE, BCAST, BARRIER, IBARRIER, PARALLEL, REGIONS };
static const char *const names[REGIONS] = {
    "main", "compute", "MPI_Init", "MPI_Finalize", "MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv", "MPI_Wait",
    "MPI_Allreduce", "MPI_Bcast", "MPI_Barrier", "MPI_Ibarrier", "!$omp parallel"};
enum { WORLD, HALF, SELF };

static OTF2_FlushType pre_flush(void *user, OTF2_FileType type, OTF2_LocationRef location, void *caller, bool final) {
    (void)user, (void)type, (void)location, (void)caller, (void)final;
    return OTF2_FLUSH;
}
static OTF2_TimeStamp post_flush(void *user, OTF2_FileType type, OTF2_LocationRef location) {
    (void)user, (void)type, (void)location;
    return 0;
}

static uint64_t now, events, arrived_by, start;
static OTF2_EvtWriter *out;
/* Number of a region in the events of a location: rank 2 has its own. */
static uint32_t own(unsigned rank, uint32_t region) { return rank == 2 ? REGIONS - 1 - region : region; }
static void enter(unsigned rank, uint32_t region) { CHECK(OTF2_EvtWriter_Enter(out, NULL, now += 7, own(rank, region))), events++; }
static void leave(unsigned rank, uint32_t region) { CHECK(OTF2_EvtWriter_Leave(out, NULL, now += 13, own(rank, region))), events++; }
#define EVENT(call) (CHECK(call), events++)

static void collective(unsigned rank, uint32_t region, uint8_t op, uint32_t comm, uint32_t root, uint64_t bytes) {
    enter(rank, region);
    EVENT(OTF2_EvtWriter_MpiCollectiveBegin(out, NULL, now));
    now = (now > arrived_by ? now : arrived_by) + 100 + rank;
    EVENT(OTF2_EvtWriter_MpiCollectiveEnd(out, NULL, now, op, comm, root, bytes, 2 * bytes));
    leave(rank, region);
}

static void step(unsigned rank, unsigned ranks, unsigned n) {
    uint32_t right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    uint64_t receive = 2 * n, send = 2 * n + 1;
    enter(rank, COMPUTE), now += 1000 * (rank + 1), leave(rank, COMPUTE);
    enter(rank, IRECV), EVENT(OTF2_EvtWriter_MpiIrecvRequest(out, NULL, now, receive)), leave(rank, IRECV);
    enter(rank, ISEND), EVENT(OTF2_EvtWriter_MpiIsend(out, NULL, now, right, WORLD, n, 1000 + n, send)), leave(rank, ISEND);
    enter(rank, WAIT);
    EVENT(OTF2_EvtWriter_MpiRequestTest(out, NULL, now, receive));
    now += 500;
    EVENT(OTF2_EvtWriter_MpiIrecv(out, NULL, now, left, WORLD, n, 1000 + n, receive));
    leave(rank, WAIT);
    enter(rank, WAIT), EVENT(OTF2_EvtWriter_MpiIsendComplete(out, NULL, now, send)), leave(rank, WAIT);
    if (rank == 0)
        enter(rank, SEND), EVENT(OTF2_EvtWriter_MpiSend(out, NULL, now, 1, HALF, 7, 70000)), leave(rank, SEND);
    if (rank == 1)
        enter(rank, RECV), EVENT(OTF2_EvtWriter_MpiRecv(out, NULL, now += 300, 0, HALF, 7, 70000)), leave(rank, RECV);
    /* All arrive before the end of the step, and none leaves before it. */
    arrived_by = start + (n + 1) * (1000 * ranks + 4000);
    collective(rank, ALLREDUCE, OTF2_COLLECTIVE_OP_ALLREDUCE, WORLD, OTF2_UNDEFINED_UINT32, 8);
    collective(rank, BCAST, OTF2_COLLECTIVE_OP_BCAST, WORLD, n % ranks, 4096);
    if (rank < 2)
        collective(rank, BARRIER, OTF2_COLLECTIVE_OP_BARRIER, HALF, OTF2_UNDEFINED_UINT32, 0);
    collective(rank, BARRIER, OTF2_COLLECTIVE_OP_BARRIER, SELF, OTF2_UNDEFINED_UINT32, 0);
    OTF2_Type type = OTF2_TYPE_UINT64;
    OTF2_MetricValue value = {.unsigned_int = n};
    EVENT(OTF2_EvtWriter_Metric(out, NULL, now, 0, 1, &type, &value));
}

static void rank_events(unsigned rank, unsigned ranks, unsigned steps) {
    OTF2_AttributeList *list = OTF2_AttributeList_New();
    CHECK(OTF2_AttributeList_AddUint32(list, 0, 99));
    CHECK(OTF2_EvtWriter_Enter(out, list, now += 7, own(rank, MAIN))), events++;
    OTF2_AttributeList_Delete(list);
    enter(rank, INIT), leave(rank, INIT);
    for (unsigned n = 0; n < steps; n++)
        step(rank, ranks, n);
    enter(rank, IBARRIER), EVENT(OTF2_EvtWriter_NonBlockingCollectiveRequest(out, NULL, now, 2 * steps)), leave(rank, IBARRIER);
    enter(rank, WAIT);
    EVENT(OTF2_EvtWriter_NonBlockingCollectiveComplete(out, NULL, now, OTF2_COLLECTIVE_OP_BARRIER, WORLD, OTF2_UNDEFINED_UINT32, 0, 0, 2 * steps));
    leave(rank, WAIT);
    enter(rank, FINALIZE), leave(rank, FINALIZE);
    leave(rank, MAIN);
}

static uint32_t strings;
static OTF2_GlobalDefWriter *def;
static uint32_t string(const char *text) {
    CHECK(OTF2_GlobalDefWriter_WriteString(def, strings, text));
    return strings++;
}

static void definitions(unsigned ranks, uint64_t end, const uint64_t *counts) {
    CHECK(OTF2_GlobalDefWriter_WriteClockProperties(def, TICKS, START, end - START, 1700000000000000000ull));
    uint32_t none = string("");
    for (uint32_t r = 0; r < REGIONS; r++) {
        uint32_t name = string(names[r]);
        bool mpi = r >= INIT && r < PARALLEL;
        OTF2_RegionRole role = r == BARRIER                       ? OTF2_REGION_ROLE_BARRIER
                               : r == ALLREDUCE                   ? OTF2_REGION_ROLE_COLL_ALL2ALL
                               : r == BCAST                       ? OTF2_REGION_ROLE_COLL_ONE2ALL
                               : mpi                              ? OTF2_REGION_ROLE_POINT2POINT
                                                                  : OTF2_REGION_ROLE_FUNCTION;
        OTF2_Paradigm paradigm = mpi ? OTF2_PARADIGM_MPI : r == PARALLEL ? OTF2_PARADIGM_OPENMP : OTF2_PARADIGM_COMPILER;
        CHECK(OTF2_GlobalDefWriter_WriteRegion(def, r, name, name, none, role, paradigm, OTF2_REGION_FLAG_NONE, none, 0, 0));
    }
    uint32_t machine = string("cluster"), node = string("node"), class = string("machine");
    CHECK(OTF2_GlobalDefWriter_WriteSystemTreeNode(def, 0, machine, class, OTF2_UNDEFINED_SYSTEM_TREE_NODE));
    for (uint32_t n = 0; n < 2; n++) {
        CHECK(OTF2_GlobalDefWriter_WriteSystemTreeNode(def, 1 + n, string(n ? "n2" : "n1"), node, 0));
        CHECK(OTF2_GlobalDefWriter_WriteSystemTreeNodeDomain(def, 1 + n, OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY));
    }
    CHECK(OTF2_GlobalDefWriter_WriteAttribute(def, 0, string("an attribute"), none, OTF2_TYPE_UINT32));
    uint64_t all[64], members[64];
    for (uint32_t r = 0; r < ranks; r++) {
        char name[64];
        snprintf(name, sizeof name, "MPI Rank %u", r);
        CHECK(OTF2_GlobalDefWriter_WriteLocationGroup(def, r, string(name), OTF2_LOCATION_GROUP_TYPE_PROCESS, 1 + (r & 1), OTF2_UNDEFINED_LOCATION_GROUP));
        snprintf(name, sizeof name, "Master thread:%u", r);
        CHECK(OTF2_GlobalDefWriter_WriteLocation(def, r, string(name), OTF2_LOCATION_TYPE_CPU_THREAD, counts[r], r));
        all[r] = r, members[r] = r;
    }
    CHECK(OTF2_GlobalDefWriter_WriteLocation(def, 1ull << 32, string("OMP thread 1:0"), OTF2_LOCATION_TYPE_CPU_THREAD, counts[ranks], 0));
    CHECK(OTF2_GlobalDefWriter_WriteGroup(def, 0, none, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, ranks, all));
    CHECK(OTF2_GlobalDefWriter_WriteGroup(def, 1, none, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, ranks, members));
    CHECK(OTF2_GlobalDefWriter_WriteGroup(def, 2, none, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, 2, members));
    CHECK(OTF2_GlobalDefWriter_WriteGroup(def, 3, none, OTF2_GROUP_TYPE_COMM_SELF, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, 0, NULL));
    CHECK(OTF2_GlobalDefWriter_WriteComm(def, WORLD, string("MPI_COMM_WORLD"), 1, OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
    CHECK(OTF2_GlobalDefWriter_WriteComm(def, HALF, string("half"), 2, WORLD, OTF2_COMM_FLAG_NONE));
    CHECK(OTF2_GlobalDefWriter_WriteComm(def, SELF, string("MPI_COMM_SELF"), 3, OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
    CHECK(OTF2_GlobalDefWriter_WriteMetricMember(def, 0, string("cycles"), none, OTF2_METRIC_TYPE_PAPI, OTF2_METRIC_ACCUMULATED_START, OTF2_TYPE_UINT64, OTF2_BASE_DECIMAL, 0, none));
    uint32_t member = 0;
    CHECK(OTF2_GlobalDefWriter_WriteMetricClass(def, 0, 1, &member, OTF2_METRIC_SYNCHRONOUS, OTF2_RECORDER_KIND_CPU));
}

static void local_definitions(OTF2_Archive *archive, uint64_t rank) {
    OTF2_DefWriter *local = OTF2_Archive_GetDefWriter(archive, rank);
    if (rank == 1) {
        CHECK(OTF2_DefWriter_WriteClockOffset(local, START, 40, 0.0));
        CHECK(OTF2_DefWriter_WriteClockOffset(local, START + 5000, -60, 0.0));
        CHECK(OTF2_DefWriter_WriteClockOffset(local, START + 20000, -60, 0.0));
    }
    if (rank == 2) {
        OTF2_IdMap *map = OTF2_IdMap_Create(OTF2_ID_MAP_DENSE, REGIONS);
        for (uint64_t r = 0; r < REGIONS; r++)
            CHECK(OTF2_IdMap_AddIdPair(map, r, REGIONS - 1 - r));
        CHECK(OTF2_DefWriter_WriteMappingTable(local, OTF2_MAPPING_REGION, map));
        OTF2_IdMap_Free(map);
    }
    CHECK(OTF2_Archive_CloseDefWriter(archive, local));
}

int main(int count, char **args) {
    unsigned ranks = count > 3 ? atoi(args[2]) : 0, steps = count > 3 ? atoi(args[3]) : 0;
    /* The clock of each rank is so many ticks ahead of that of the one before it. */
    unsigned ahead = count > 4 ? atoi(args[4]) : 0;
    if (ranks < 2 || ranks > 64)
        return fprintf(stderr, "usage: otf2_writer DIRECTORY RANKS STEPS [AHEAD]\n"), 2;
    OTF2_Archive *archive = OTF2_Archive_Open(args[1], "traces", OTF2_FILEMODE_WRITE, 256 * 1024, 4 * 1024 * 1024, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (!archive)
        return 1;
    OTF2_FlushCallbacks flush = {.otf2_pre_flush = pre_flush, .otf2_post_flush = post_flush};
    CHECK(OTF2_Archive_SetFlushCallbacks(archive, &flush, NULL));
    CHECK(OTF2_Archive_SetSerialCollectiveCallbacks(archive));
    CHECK(OTF2_Archive_SetCreator(archive, "otf2_writer"));
    CHECK(OTF2_Archive_OpenEvtFiles(archive));
    CHECK(OTF2_Archive_OpenDefFiles(archive));
    uint64_t end = 0, counts[65];
    for (unsigned rank = 0; rank <= ranks; rank++) {
        uint64_t location = rank < ranks ? rank : 1ull << 32;
        out = OTF2_Archive_GetEvtWriter(archive, location);
        start = START + (rank < ranks ? rank : 0) * ahead, now = start + rank, events = 0;
        if (rank < ranks)
            rank_events(rank, ranks, steps);
        else
            enter(0, PARALLEL), enter(0, COMPUTE), leave(0, COMPUTE), leave(0, PARALLEL);
        counts[rank] = events;
        end = now > end ? now : end;
        CHECK(OTF2_Archive_CloseEvtWriter(archive, out));
    }
    for (unsigned rank = 0; rank < ranks; rank++)
        local_definitions(archive, rank);
    local_definitions(archive, 1ull << 32);
    CHECK(OTF2_Archive_CloseEvtFiles(archive));
    CHECK(OTF2_Archive_CloseDefFiles(archive));
    def = OTF2_Archive_GetGlobalDefWriter(archive);
    definitions(ranks, end + 200, counts);
    CHECK(OTF2_Archive_Close(archive));
    return 0;
}
