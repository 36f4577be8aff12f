! The same ring as in known.c, by `use mpi`: N iterations of irecv, isend of 100 integers, waitall, allreduce.
program known
    use mpi
    implicit none
    integer :: rank, ranks, n, i, code, requests(2), send(100), receive(300)
    double precision :: mine, total
    character(len = 16) :: word
    call get_command_argument(1, word)
    read (word, *) n
    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
    send = rank
    mine = rank
    do i = 1, n
        call MPI_Irecv(receive, 300, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests(1), code)
        call MPI_Isend(send, 100, MPI_INTEGER, mod(rank + 1, ranks), 7, MPI_COMM_WORLD, requests(2), code)
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
        call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
    end do
    call MPI_Finalize(code)
end program
