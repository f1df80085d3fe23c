/** Tests of the contract that this engine cannot pass, by the beginning of their name. */
const REASONS: readonly (readonly [beginning: string, reason: string])[] = [
  ['timers: a snapshot knows the earliest', 'the engine has no timers: QEMU stops all clocks of a machine'],
  [
    'code inside can neither change the network nor see packets',
    'root of a machine owns its network card; the gate is outside',
  ],
  ...[
    'memory, CPUs, processes and disk are those of the sandbox',
    'what the sandbox uses counts as used, and cached files as available',
    'a changed limit is visible at once',
    'after a wake and in a fork, they are the new limits',
    'a program that has such files open sleeps and reads on',
  ].map(
    (name) =>
      [
        name,
        'programs see the memory, the processors and the disk of the machine; its limits are in /sys/fs/cgroup',
      ] as const,
  ),
  [
    'memory is private when written, and shared with siblings',
    'QEMU keeps the code that it has translated, which is private memory of some 100 MB',
  ],
  [
    'a program that takes the resolver’s port is reported',
    'the resolver is outside of the machine, so no program can take its port',
  ],
  [
    'mappings of a replaced program are not shown',
    'a replaced program continues from a copy, but the kernel of a guest keeps the name of its mapping',
  ],
  [
    'a removed current directory counts as deleted',
    'the kernel of a guest knows the name of its current directory and does not ask the volume for it',
  ],
  ['watches see what others change after the sleep', 'FUSE tells a guest of no changes that others make'],
  ['a socket on a volume is refused', 'a machine is saved as a whole, so a socket on a volume stays one'],
  [
    'a deleted file with another name on a volume is refused',
    'the content of a deleted file is saved, whatever other names it has',
  ],
]

export function whyLeftOut(name: string): string | undefined {
  return REASONS.find(([beginning]) => name.startsWith(beginning))?.[1]
}

/** What runs without DORMOUSE_TEST_LARGE=1: one test or two of everything that an engine does. */
export const CHOSEN_TESTS: ReadonlySet<string> = new Set([
  'a created burrow answers, and destroy removes it completely',
  'create refuses an unknown field and leaves nothing behind',
  'an aborted create leaves nothing behind',
  'a burrow ends and reports it when its agent dies',
  'a new engine adopts a burrow with its variables and an active run',
  'a frozen sandbox can be saved, and is adopted frozen',
  'a sandbox has the same objects at the same addresses, and its files, after a sleep',
  'clocks: the monotonic clock omits the time asleep, the wall clock is correct',
  'a snapshot can leave the sandbox frozen',
  'a second snapshot at the same time is refused, and the first succeeds',
  'destroy waits for a snapshot in progress, which succeeds',
  'children and parent have the same objects and change them separately',
  'hostname and sandbox id inside are those of the child',
  'rollback restores an older state in place',
  'deleting a snapshot does not affect others that share its memory',
  'a reset from inside is an error, a reset from outside is seen inside',
  'bytes sent before a reset arrive, also while the other side sends',
  'connections fail at once without a gate',
  'connections arrive at the gate, with their destination',
  'DNS queries arrive at the resolver, which answers them',
  'two burrows have the same addresses and do not reach each other',
  'a program that waits for an answer gets an error, in the parent and children of a fork',
  'new connections go through a new gate, also after a rollback',
  'burrows see each other’s writes at once, and root and user may write',
  'a volume mounted read-only cannot be changed in any way',
  'contents survive every burrow, sleep, fork and rollback',
  'a snapshot can be restored with other volumes',
  'paths that overlap, leave the sandbox or hide needed files are refused',
  'an open file whose mode changed, or that was replaced, is opened again by name',
  'an open file that was deleted before the sleep keeps its content',
  'a fork and its parent share a lock for reading',
  'a lock by flock is given back at the wake, or the wake is refused',
  'variables, functions and classes stay, and objects keep their identity',
  'an exception ends the run with 1 and a traceback of user code, and the next run works',
  'stdout and stderr are kept apart and in order',
  'the value of the last expression arrives as text, marked as main',
  'args are passed unchanged, without a shell',
  'stdin can be written in pieces and closed',
  'a signal, given by name, reaches the whole process group',
  'pids: a process above the limit fails to start, and the burrow continues',
  'limits of a running burrow can be changed, and usage is reported',
])
