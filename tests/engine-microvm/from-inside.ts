/** In the order: file below `tests`, the beginning of the names of its tests, why they do not apply to machines. */
const LEFT_OUT: readonly (readonly [file: string, name: RegExp, reason: string])[] = [
  [
    'isolation/system-calls.test.ts',
    /./,
    'system calls go to the guest’s own kernel, which root may use as it likes',
  ],
  ['isolation/after-wake.test.ts', /./, 'the host sees QEMU only: hostile-guest.test.ts looks at that'],
  [
    'isolation/volumes.test.ts',
    /the mount point of a volume cannot be removed/,
    'a machine is saved as a whole, with the mounts of its own kernel wherever they are',
  ],
  ['isolation/template-builds.test.ts', /./, 'templates are built by processes'],
  ['isolation/fake-agent.test.ts', /./, 'a snapshot of a machine asks the agent nothing'],
  [
    'isolation/agent-link.test.ts',
    /^(an agent that writes beside|a process that fills the directory)/,
    'the directory of the agent’s socket is inside of the machine',
  ],
  [
    'isolation/files.test.ts',
    /^the kernel’s files tell/,
    'they tell of the machine, whose kernel is the guest’s own',
  ],
  ['isolation/files.test.ts', /^devices/, 'the devices are those of the machine'],
  [
    'isolation/files.test.ts',
    /^what is ours is out of reach of root/,
    'root owns its machine, and the agent in it; the host trusts neither',
  ],
  [
    'isolation/files.test.ts',
    /out of reach of user > cannot (write|remove) its memory limit|add to its cgroup|the numbers of the guard/,
    'root of a machine owns its cgroups, and there is no guard',
  ],
  ['isolation/files.test.ts', /setuid files and file capabilities/, 'files are on the disk of the machine'],
  [
    'isolation/files.test.ts',
    /mount points and environment/,
    'the mounts are those of the guest’s own kernel',
  ],
  [
    'isolation/network.test.ts',
    /any other interface/,
    'a machine has a network card, whose cable ends at the gate',
  ],
  ['isolation/network.test.ts', /^sockets that/, 'sockets are those of the guest’s own kernel'],
  [
    'isolation/processes.test.ts',
    /^(PID 1 is closed|the agent > (?!stopped for good))/,
    'the first process that a sandbox sees is the agent, which root owns',
  ],
  ['isolation/processes.test.ts', /^on the host every process/, 'its processes are in the memory of QEMU'],
  [
    'isolation/resources.test.ts',
    /cannot take more than its share|^terminals/,
    'a machine has its own share of everything; the host limits QEMU',
  ],
  [
    'isolation/resources.test.ts',
    /^a protected server|pseudo terminals/,
    'the guest’s own kernel counts them',
  ],
  [
    'isolation/works.test.ts',
    /^(privileges are exactly|no user becomes root by a program > (a setuid|file cap))/,
    'root has all capabilities over its machine, and programs may give them',
  ],
  [
    'network/connections.test.ts',
    /a snapshot that is refused/,
    'a machine is saved as a whole: no object of its kernel prevents a snapshot',
  ],
  [
    'network/break-out.test.ts',
    /^below sockets > (?!a source address)/,
    'root of a machine owns its network card, whose cable ends at the gate',
  ],
]

export function whyNotFromInside(file: string, name: string): string | undefined {
  return LEFT_OUT.find((entry) => entry[0] === file && entry[1].test(name))?.[2]
}

/** What runs where nothing is asked for: one test or two of every way out. */
const CHOSEN: Readonly<Record<string, RegExp>> = {
  'isolation/files.test.ts': /finds no file of the host|the files API follows links inside only/,
  'isolation/network.test.ts': /cannot reach > (a service on|an abstract unix socket)/,
  'isolation/volumes.test.ts': /shows no other files|make a read-only volume writable/,
  'isolation/processes.test.ts': /sees the processes of its own|by its pid/,
  'network/break-out.test.ts':
    /answer to the host itself|private addresses > (10\.9\.8\.7|169\.254\.169\.254|fd00:77::7)|its loopback .* 127\.0\.0\.1|its address 11\.0\.0\.2/,
  'network/life.test.ts': /sleep > stored/,
}

export function isChosen(file: string, name: string): boolean {
  return CHOSEN[file]?.test(name) ?? false
}
