//! The calls of the MPI library, made safe. All unsafe code of this crate is here.
//!
//! Two things make a C interface of this kind dangerous. The library reads and writes buffers after
//! a call has returned: a [`Transfer`] owns its buffer and gives it up only when the transfer is over;
//! one that is dropped earlier leaves the buffer to the library for ever. And no call may be made
//! before initialization or after finalization: a [`Communicator`] can only be had from a [`Library`],
//! and every call holds off [`Library::finalize`] or fails after it.
//!
//! Errors are returned, not fatal: the communicators say so to the library.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use ::mpi::ffi;

/// Counts are 32-bit in MPI, so longer buffers travel in pieces of this many bytes.
const PIECE: u32 = 1 << 30;

/// When a peer's connection breaks, Open MPI 4 explains it at length, through the launcher, and waits
/// for that. But the launcher is not listening just then: it ends the processes of the job, and ends
/// this one too before it could say which process was lost. This variable spares the explanations.
const QUIET: &str = "OMPI_MCA_orte_execute_quiet";

/// A call of the library that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed: {reason}")]
pub struct CallError {
    /// The function's name.
    pub call: &'static str,
    /// What the library says.
    pub reason: String,
}

/// Why the library could not be initialized.
#[derive(Debug)]
pub(crate) enum InitError {
    Twice,
    NoThreads,
    Call(CallError),
}

impl From<CallError> for InitError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// The initialized library. Stays on the thread that initialized it, as MPI wants that one to finalize.
#[derive(Debug)]
pub(crate) struct Library {
    open: Arc<Open>,
    one_thread: PhantomData<Cell<*const ()>>,
}

/// False once the library is finalized. Whoever makes calls holds it for reading.
#[derive(Debug)]
struct Open(RwLock<bool>);

impl Open {
    fn hold(&self, call: &'static str) -> Result<RwLockReadGuard<'_, bool>, CallError> {
        let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if *open {
            Ok(open)
        } else {
            Err(CallError { call, reason: "MPI is finalized already".to_owned() })
        }
    }
}

impl Library {
    /// Initializes the library for calls from many threads at a time.
    pub(crate) fn init() -> Result<Self, InitError> {
        let mut before: c_int = 0;
        // SAFETY: may be called at any time, and writes one int.
        check("MPI_Initialized", unsafe { ffi::MPI_Initialized(&raw mut before) })?;
        if before != 0 {
            return Err(InitError::Twice);
        }
        if std::env::var_os(QUIET).is_none() {
            // SAFETY: nothing may read the environment meanwhile. The same holds for the initialization
            // of the library, which puts variables of its own there.
            unsafe { std::env::set_var(QUIET, "1") };
        }
        let mut provided: c_int = 0;
        // SAFETY: MPI allows null for both arguments; not initialized yet as checked above (two racing
        // threads would get an error from the library, not undefined behaviour).
        let (code, multiple) = unsafe {
            let multiple = ffi::RSMPI_THREAD_MULTIPLE;
            let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
            (ffi::MPI_Init_thread(none, nothing, multiple, &raw mut provided), multiple)
        };
        check("MPI_Init_thread", code)?;
        let library = Self { open: Arc::new(Open(RwLock::new(true))), one_thread: PhantomData };
        // The levels are ordered.
        if provided < multiple {
            library.finalize();
            return Err(InitError::NoThreads);
        }
        Ok(library)
    }

    /// A communicator of its own over all processes: its messages meet no others. Collective.
    pub(crate) fn communicator(&self) -> Result<Communicator, CallError> {
        let _open = self.open.hold("MPI_Comm_dup")?;
        // SAFETY: the library is initialized; the constants are set by then; each pointer is to a live
        // variable of the type that the function writes.
        unsafe {
            let mut handle = ffi::RSMPI_COMM_NULL;
            check("MPI_Comm_dup", ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, &raw mut handle))?;
            let returned = ffi::MPI_Comm_set_errhandler(handle, ffi::RSMPI_ERRORS_RETURN);
            check("MPI_Comm_set_errhandler", returned)?;
            let (mut process, mut processes): (c_int, c_int) = (0, 0);
            check("MPI_Comm_rank", ffi::MPI_Comm_rank(handle, &raw mut process))?;
            check("MPI_Comm_size", ffi::MPI_Comm_size(handle, &raw mut processes))?;
            Ok(Communicator {
                handle,
                process: process.unsigned_abs(),
                processes: processes.unsigned_abs(),
                open: Arc::clone(&self.open),
            })
        }
    }

    /// The lowest process among those that share memory with this one: equal for the processes of one
    /// node. Collective.
    pub(crate) fn node_leader(&self, all: &Communicator) -> Result<u32, CallError> {
        let _open = self.open.hold("MPI_Comm_split_type")?;
        let mut leader = all.process;
        // SAFETY: as in `communicator`; the buffer of the broadcast is one u32, sent as its bytes.
        unsafe {
            let mut node = ffi::RSMPI_COMM_NULL;
            let returned = ffi::MPI_Comm_split_type(
                all.handle,
                ffi::RSMPI_COMM_TYPE_SHARED,
                all.process.cast_signed(),
                ffi::RSMPI_INFO_NULL,
                &raw mut node,
            );
            check("MPI_Comm_split_type", returned)?;
            let buffer = (&raw mut leader).cast::<c_void>();
            let bytes: c_int = 4;
            check("MPI_Bcast", ffi::MPI_Bcast(buffer, bytes, ffi::RSMPI_UINT8_T, 0, node))?;
            check("MPI_Comm_free", ffi::MPI_Comm_free(&raw mut node))?;
        }
        Ok(leader)
    }

    /// The name of this host.
    pub(crate) fn host(&self) -> Result<String, CallError> {
        let _open = self.open.hold("MPI_Get_processor_name")?;
        let mut name = [0_u8; ffi::MPI_MAX_PROCESSOR_NAME as usize + 1];
        let mut length: c_int = 0;
        // SAFETY: the library is initialized, and writes at most MPI_MAX_PROCESSOR_NAME characters.
        let returned = unsafe {
            ffi::MPI_Get_processor_name(name.as_mut_ptr().cast::<c_char>(), &raw mut length)
        };
        check("MPI_Get_processor_name", returned)?;
        Ok(text(&name, length))
    }

    /// Finalizes the library, unless a call is going on in another thread or it is done already.
    /// Returns whether it is finalized.
    pub(crate) fn finalize(&self) -> bool {
        let mut open = match self.open.0.try_write() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if std::mem::replace(&mut *open, false) {
            // SAFETY: initialized by this thread, which `Library` never leaves; no other call is going
            // on or can start, as `open` is held for writing and false from now on.
            unsafe { ffi::MPI_Finalize() };
        }
        true
    }
}

/// A group of all processes whose messages meet no others.
pub(crate) struct Communicator {
    handle: ffi::MPI_Comm,
    process: u32,
    processes: u32,
    open: Arc<Open>,
}

// SAFETY: a handle is a name for something in the library, which was initialized for calls from many
// threads at a time (MPI_THREAD_MULTIPLE).
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({} of {})", self.process, self.processes)
    }
}

impl Communicator {
    /// This process's number.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// How many processes there are.
    pub(crate) fn processes(&self) -> u32 {
        self.processes
    }

    /// Begins a barrier, which is over when all processes have begun it.
    pub(crate) fn barrier(&self) -> Result<Transfer<'_>, CallError> {
        self.transfer("MPI_Ibarrier", Vec::new(), |_, _, request| {
            // SAFETY: the handle is valid while the library is open, which `transfer` sees to.
            unsafe { ffi::MPI_Ibarrier(self.handle, request) }
        })
    }

    /// Begins to send `bytes` to a process, which must know their number.
    pub(crate) fn send(&self, to: u32, bytes: Vec<u8>) -> Result<Transfer<'_>, CallError> {
        let to = to.cast_signed();
        self.transfer("MPI_Isend", bytes, |piece, count, request| {
            // SAFETY: `piece` has `count` bytes that live until the transfer is over.
            unsafe { ffi::MPI_Isend(piece, count, ffi::RSMPI_UINT8_T, to, 0, self.handle, request) }
        })
    }

    /// Begins to receive exactly `length` bytes from a process.
    pub(crate) fn receive(&self, from: u32, length: usize) -> Result<Transfer<'_>, CallError> {
        let from = from.cast_signed();
        self.transfer("MPI_Irecv", vec![0; length], |piece, count, request| {
            // SAFETY: `piece` has `count` bytes that live, and that nobody else looks at, until the
            // transfer is over.
            unsafe {
                ffi::MPI_Irecv(piece, count, ffi::RSMPI_UINT8_T, from, 0, self.handle, request)
            }
        })
    }

    /// Begins to bring process 0's `bytes` to all others, whose buffers must have the same length.
    pub(crate) fn broadcast(&self, bytes: Vec<u8>) -> Result<Transfer<'_>, CallError> {
        self.transfer("MPI_Ibcast", bytes, |piece, count, request| {
            // SAFETY: `piece` has `count` bytes that live, and that nobody else looks at, until the
            // transfer is over.
            unsafe { ffi::MPI_Ibcast(piece, count, ffi::RSMPI_UINT8_T, 0, self.handle, request) }
        })
    }

    /// A message that has come, and who sent it. Its sender used [`Communicator::send`] for it alone,
    /// and it is short enough to travel at once. To be called by one thread only.
    pub(crate) fn take_message(&self) -> Result<Option<(u32, Vec<u8>)>, CallError> {
        let _open = self.open.hold("MPI_Iprobe")?;
        let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: the library is open. The status is read only after a message was found, and then the
        // library has written it; the buffer has the size that the library gave for this very message.
        unsafe {
            let (mut found, mut count): (c_int, c_int) = (0, 0);
            let any = ffi::RSMPI_ANY_SOURCE;
            let status = status.as_mut_ptr();
            check("MPI_Iprobe", ffi::MPI_Iprobe(any, 0, self.handle, &raw mut found, status))?;
            if found == 0 {
                return Ok(None);
            }
            let kind = ffi::RSMPI_UINT8_T;
            check("MPI_Get_count", ffi::MPI_Get_count(status, kind, &raw mut count))?;
            let sender = (*status).MPI_SOURCE;
            let mut bytes = vec![0_u8; count.unsigned_abs() as usize];
            let buffer = bytes.as_mut_ptr().cast::<c_void>();
            let ignore = ffi::RSMPI_STATUS_IGNORE;
            let returned = ffi::MPI_Recv(buffer, count, kind, sender, 0, self.handle, ignore);
            check("MPI_Recv", returned)?;
            Ok(Some((sender.unsigned_abs(), bytes)))
        }
    }

    /// Begins one request for each piece of `bytes`, of which an empty buffer has one too.
    fn transfer(
        &self,
        call: &'static str,
        mut bytes: Vec<u8>,
        begin: impl Fn(*mut c_void, c_int, *mut ffi::MPI_Request) -> c_int,
    ) -> Result<Transfer<'_>, CallError> {
        let open = self.open.hold(call)?;
        let start = bytes.as_mut_ptr();
        let length = bytes.len();
        let mut transfer =
            Transfer { requests: Vec::new(), bytes: ManuallyDrop::new(bytes), _open: open };
        let mut at = 0;
        loop {
            let count = u32::try_from(length - at).unwrap_or(PIECE).min(PIECE);
            // SAFETY: `RSMPI_REQUEST_NULL` is a constant of the library; `at` is within the buffer.
            let (mut request, piece) = unsafe { (ffi::RSMPI_REQUEST_NULL, start.add(at)) };
            check(call, begin(piece.cast(), count.cast_signed(), &raw mut request))?;
            transfer.requests.push(request);
            at += count as usize;
            if at >= length {
                return Ok(transfer);
            }
        }
    }
}

/// Something that the library does on its own, with the buffer that it uses. It goes on only while
/// somebody asks whether it is over. Holds off finalization.
#[must_use]
pub(crate) struct Transfer<'c> {
    /// Those that are not over.
    requests: Vec<ffi::MPI_Request>,
    bytes: ManuallyDrop<Vec<u8>>,
    _open: RwLockReadGuard<'c, bool>,
}

impl fmt::Debug for Transfer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({} bytes, {} requests)", self.bytes.len(), self.requests.len())
    }
}

impl Transfer<'_> {
    /// Lets the library work on it, and says whether it is over.
    pub(crate) fn is_over(&mut self) -> Result<bool, CallError> {
        while let Some(request) = self.requests.last_mut() {
            let mut over: c_int = 0;
            // SAFETY: the library is open; the request is one that it gave and has not ended yet.
            let returned =
                unsafe { ffi::MPI_Test(request, &raw mut over, ffi::RSMPI_STATUS_IGNORE) };
            check("MPI_Test", returned)?;
            if over == 0 {
                return Ok(false);
            }
            self.requests.pop();
        }
        Ok(true)
    }

    /// The buffer of a transfer that is over, or none.
    pub(crate) fn into_bytes(mut self) -> Option<Vec<u8>> {
        self.requests.is_empty().then(|| std::mem::take(&mut *self.bytes))
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        if self.requests.is_empty() {
            drop(std::mem::take(&mut *self.bytes));
        }
    }
}

fn check(call: &'static str, returned: c_int) -> Result<(), CallError> {
    // MPI_SUCCESS is 0 in every implementation.
    if returned == 0 {
        return Ok(());
    }
    let mut reason = [0_u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length: c_int = 0;
    // SAFETY: the function writes at most MPI_MAX_ERROR_STRING characters.
    unsafe {
        ffi::MPI_Error_string(returned, reason.as_mut_ptr().cast::<c_char>(), &raw mut length);
    }
    Err(CallError { call, reason: text(&reason, length) })
}

/// What the library wrote into a buffer: so many characters, and it may say one too many.
fn text(buffer: &[u8], length: c_int) -> String {
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len());
    String::from_utf8_lossy(&buffer[..length]).trim_end_matches('\0').to_owned()
}
