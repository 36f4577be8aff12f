"""Messages and collectives through mpi4py; four ranks. tests/python.rs has the sums."""

import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
following, previous = (rank + 1) % size, (rank + size - 1) % size
out = bytearray(1000)
into = bytearray(1000)

request = world.Irecv([into, 1000, MPI.BYTE], previous, 1)
world.Send([out, 100, MPI.BYTE], following, 1)
request.Wait()
requests = [world.Irecv([into, 1000, MPI.BYTE], MPI.ANY_SOURCE, 2), world.Isend([out, 200, MPI.BYTE], following, 2)]
MPI.Request.Waitall(requests)
world.Sendrecv([out, 3, MPI.DOUBLE], following, 3, [into, 100, MPI.DOUBLE], previous, 3)
send = world.Send_init([out, 16, MPI.BYTE], following, 4)
receive = world.Recv_init([into, 100, MPI.BYTE], previous, 4)
for _ in range(3):
    MPI.Prequest.Startall([send, receive])
    MPI.Request.Waitall([send, receive])
send.Free()
receive.Free()
x, y = array.array("d", [rank] * 8), array.array("d", [0] * 8)
world.Allreduce(x, y)
world.Allreduce(MPI.IN_PLACE, y)
world.Alltoall([out, 6, MPI.INT], [into, 6, MPI.INT])
counts = [8 * (rank + k + 1) for k in range(size)]
places = [64 * k for k in range(size)]
world.Alltoallv([out, counts, places, MPI.BYTE], [into, counts, places, MPI.BYTE])
half = world.Split(rank % 2, rank)
half.Sendrecv([out, 50, MPI.BYTE], 1 - half.Get_rank(), 5, [into, 1000, MPI.BYTE], 1 - half.Get_rank(), 5)
half.Free()
world.Barrier()
