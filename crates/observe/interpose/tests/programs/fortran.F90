! One program in three forms: FORM 1 includes mpif.h, 2 uses mpi, 3 uses mpi_f08. Four ranks; tests/fortran.rs has
! the sums.
#if FORM == 3
#define REQUEST type(MPI_Request)
#define STATUS type(MPI_Status)
#define COMM type(MPI_Comm)
#define MESSAGE type(MPI_Message)
#define DATATYPE type(MPI_Datatype)
#else
#define REQUEST integer
#define STATUS integer, dimension(MPI_STATUS_SIZE)
#define COMM integer
#define MESSAGE integer
#define DATATYPE integer
#endif
program forms
#if FORM == 2
  use mpi
#elif FORM == 3
  use mpi_f08
#endif
  implicit none
#if FORM == 1
  include 'mpif.h'
#endif
  integer :: ierr, rank, ranks, next, previous, i, index, done, provided
  integer :: out(1000), in(1000), counts(4), places(4), indices(4)
  double precision :: x(10), y(10)
  REQUEST :: q(4)
  STATUS :: s
#if FORM == 3
  STATUS :: all(4)
#else
  integer :: all(MPI_STATUS_SIZE, 4)
#endif
  COMM :: half
  MESSAGE :: message
  DATATYPE :: vector
  logical :: flag
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  next = mod(rank + 1, ranks)
  previous = mod(rank + ranks - 1, ranks)
  out = rank
  x = rank
  ! 1: Irecv, Send, Wait
  call MPI_Irecv(in, 1000, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Send(out, 100, MPI_INTEGER, next, 1, MPI_COMM_WORLD, ierr)
  call MPI_Wait(q(1), MPI_STATUS_IGNORE, ierr)
  ! 2: from any source with any tag
  call MPI_Isend(out, 20, MPI_INTEGER, next, 2, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Recv(in, 1000, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, s, ierr)
  call MPI_Wait(q(1), s, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  ! 3: three each way
  do i = 1, 2
    call MPI_Irecv(in, 1000, MPI_INTEGER, previous, 3, MPI_COMM_WORLD, q(i), ierr)
  end do
  do i = 1, 2
    call MPI_Isend(out, 10 * i, MPI_INTEGER, next, 3, MPI_COMM_WORLD, q(2 + i), ierr)
  end do
  call MPI_Waitall(4, q, MPI_STATUSES_IGNORE, ierr)
  ! 4: Sendrecv, 5: Sendrecv_replace, 6: to nobody
  call MPI_Sendrecv(out, 7, MPI_INTEGER, next, 4, in, 1000, MPI_INTEGER, previous, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Sendrecv_replace(out, 8, MPI_INTEGER, next, 5, previous, 5, MPI_COMM_WORLD, s, ierr)
  call MPI_Sendrecv(out, 7, MPI_INTEGER, MPI_PROC_NULL, 6, in, 10, MPI_INTEGER, MPI_PROC_NULL, 6, MPI_COMM_WORLD, s, ierr)
  ! 7: persistent, three times
  call MPI_Send_init(x, 5, MPI_DOUBLE_PRECISION, next, 7, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Recv_init(y, 10, MPI_DOUBLE_PRECISION, previous, 7, MPI_COMM_WORLD, q(2), ierr)
  do i = 1, 3
    call MPI_Startall(2, q, ierr)
    call MPI_Waitall(2, q, all, ierr)
  end do
  call MPI_Request_free(q(1), ierr)
  call MPI_Request_free(q(2), ierr)
  ! 8: Waitany, 9: Testsome, 10: Test, 11: Testany
  call MPI_Irecv(in, 1000, MPI_INTEGER, previous, 8, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Isend(out, 11, MPI_INTEGER, next, 8, MPI_COMM_WORLD, q(2), ierr)
  do i = 1, 2
    call MPI_Waitany(2, q, index, MPI_STATUS_IGNORE, ierr)
  end do
  call MPI_Irecv(in, 1000, MPI_INTEGER, previous, 9, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Isend(out, 12, MPI_INTEGER, next, 9, MPI_COMM_WORLD, q(2), ierr)
  do
    call MPI_Testsome(2, q, done, indices, MPI_STATUSES_IGNORE, ierr)
    if (done == MPI_UNDEFINED) exit
  end do
  call MPI_Irecv(in, 1000, MPI_INTEGER, previous, 10, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Isend(out, 13, MPI_INTEGER, next, 10, MPI_COMM_WORLD, q(2), ierr)
  do i = 1, 2
    do
      call MPI_Test(q(i), flag, MPI_STATUS_IGNORE, ierr)
      if (flag) exit
    end do
  end do
  call MPI_Irecv(in, 1000, MPI_INTEGER, previous, 11, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Isend(out, 14, MPI_INTEGER, next, 11, MPI_COMM_WORLD, q(2), ierr)
  done = 0
  do while (done < 2)
    call MPI_Testany(2, q, index, flag, s, ierr)
    if (flag) done = done + 1
  end do
  ! 12: matched probe, 13: a type with gaps
  call MPI_Isend(out, 15, MPI_INTEGER, next, 12, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Mprobe(previous, 12, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE, ierr)
  call MPI_Mrecv(in, 1000, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
  call MPI_Wait(q(1), s, ierr)
  call MPI_Type_vector(3, 2, 5, MPI_INTEGER, vector, ierr)
  call MPI_Type_commit(vector, ierr)
  call MPI_Sendrecv(out, 2, vector, next, 13, in, 100, MPI_INTEGER, previous, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Type_free(vector, ierr)
  ! Collectives
  call MPI_Bcast(x, 10, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(x, y, 6, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, y, 6, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 5, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call MPI_Alltoall(out, 6, MPI_INTEGER, in, 6, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 1, 4
    counts(i) = 8 * (rank + i)
    places(i) = 100 * (i - 1)
  end do
  call MPI_Alltoallv(out, counts, places, MPI_INTEGER, in, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call MPI_Alltoallv(MPI_IN_PLACE, counts, places, MPI_INTEGER, in, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call MPI_Iallreduce(x, y, 6, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, q(1), ierr)
  call MPI_Wait(q(1), MPI_STATUS_IGNORE, ierr)
  ! 14: in a half of the ranks, the order turned round
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, ierr)
  call MPI_Comm_rank(half, i, ierr)
  call MPI_Sendrecv(out, 16, MPI_INTEGER, 1 - i, 14, in, 1000, MPI_INTEGER, 1 - i, 14, half, s, ierr)
  call MPI_Comm_free(half, ierr)
#if FORM == 3
  ! 15: without the error codes, which are optional
  call MPI_Sendrecv(out, 17, MPI_INTEGER, next, 15, in, 1000, MPI_INTEGER, previous, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Barrier(MPI_COMM_WORLD)
#endif
  call MPI_Finalize(ierr)
end program forms
