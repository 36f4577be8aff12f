! Regions and points of a program for idlewave's recorder. Fortran 2008, nothing to link.
!
!   use idlewave
!   call idlewave_begin("assemble")
!   ...
!   call idlewave_end("assemble")
!   call idlewave_point("restart written")
!
! The functions of the recorder are there only while `idlewave record` runs the program; they are looked up at the
! first call, and without them each call is one comparison. Trailing blanks of names do not count; names are cut
! after 56 bytes.
!
! SPDX-License-Identifier: Apache-2.0 OR MIT
module idlewave
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_procpointer, c_funptr, c_null_char, c_null_ptr, c_ptr
  implicit none
  private
  public :: idlewave_begin, idlewave_end, idlewave_point

  integer, parameter :: longest = 255

  abstract interface
    subroutine mark(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
  end interface

  interface
    ! The handle is RTLD_DEFAULT: all libraries of the program.
    function dlsym(handle, symbol) bind(c, name="dlsym")
      import :: c_char, c_funptr, c_ptr
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: symbol(*)
      type(c_funptr) :: dlsym
    end function
  end interface

  procedure(mark), pointer, save :: mark_begin => null()
  procedure(mark), pointer, save :: mark_end => null()
  procedure(mark), pointer, save :: mark_point => null()
  logical, save, volatile :: looked_up = .false.

contains

  ! A region is entered.
  subroutine idlewave_begin(name)
    character(len=*), intent(in) :: name
    if (.not. looked_up) call look_up()
    if (associated(mark_begin)) call tell(mark_begin, name)
  end subroutine

  ! The region that this thread entered last under this name is left.
  subroutine idlewave_end(name)
    character(len=*), intent(in) :: name
    if (.not. looked_up) call look_up()
    if (associated(mark_end)) call tell(mark_end, name)
  end subroutine

  ! Something happened now.
  subroutine idlewave_point(name)
    character(len=*), intent(in) :: name
    if (.not. looked_up) call look_up()
    if (associated(mark_point)) call tell(mark_point, name)
  end subroutine

  ! Several threads may do this at the same time: they find the same.
  subroutine look_up()
    call find("idlewave_mark_begin", mark_begin)
    call find("idlewave_mark_end", mark_end)
    call find("idlewave_mark_point", mark_point)
    looked_up = .true.
  end subroutine

  subroutine find(symbol, found)
    character(len=*), intent(in) :: symbol
    procedure(mark), pointer, intent(inout) :: found
    type(c_funptr) :: address
    address = dlsym(c_null_ptr, symbol // c_null_char)
    if (c_associated(address)) call c_f_procpointer(address, found)
  end subroutine

  subroutine tell(what, name)
    procedure(mark) :: what
    character(len=*), intent(in) :: name
    character(kind=c_char) :: terminated(longest + 1)
    integer :: i, length
    length = min(len_trim(name), longest)
    do i = 1, length
      terminated(i) = name(i:i)
    end do
    terminated(length + 1) = c_null_char
    call what(terminated)
  end subroutine

end module
