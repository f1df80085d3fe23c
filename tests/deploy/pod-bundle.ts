import { lstat, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What this needs of a container of a pod. */
export interface PodSpec {
  readonly hostPID?: boolean
  readonly hostNetwork?: boolean
  readonly enableServiceLinks?: boolean
  readonly containers: readonly [ContainerSpec]
}

interface ContainerSpec {
  readonly command: readonly string[]
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string; readonly value?: string }[]
  readonly volumeMounts: readonly VolumeMount[]
}

export interface ServiceSpec {
  readonly metadata: { readonly name: string }
  readonly spec: { readonly ports: readonly { readonly port: number }[] }
}

interface VolumeMount {
  readonly name: string
  readonly mountPath: string
  readonly readOnly?: boolean
  readonly mountPropagation?: 'None' | 'HostToContainer' | 'Bidirectional'
}

export interface BundlePlace {
  readonly rootfs: string
  readonly hostname: string
  /** Directories of the node, by the names of volumes. */
  readonly sources: ReadonlyMap<string, string>
  /** Fields of the pod that the manifest takes its environment from. */
  readonly fields: Readonly<Record<string, string>>
  /** Services of its namespace that exist when it starts. */
  readonly services: readonly ServiceSpec[]
  /** Directories of the node that the container sees besides those of the manifest. */
  readonly besides: readonly (readonly [source: string, destination: string])[]
}

const PROPAGATION = { None: 'rprivate', HostToContainer: 'rslave', Bidirectional: 'rshared' }
const DEVICE_TYPES = { c: 0o020000, b: 0o060000 }
const FILE_TYPE = 0o170000

/** The configuration of the OCI runtime that containerd makes for a privileged container of this pod. */
export async function bundleOf(spec: PodSpec, place: BundlePlace) {
  const [container] = spec.containers
  const links = spec.enableServiceLinks === false ? [] : place.services.flatMap(linksOf)
  const capabilities = await ownCapabilities()
  const variables: Record<string, string> = { ...Object.fromEntries(links), ...place.fields }
  for (const { name, value } of container.env) if (value !== undefined) variables[name] = value
  const expanded = (text: string) =>
    text.replaceAll(/\$\((\w+)\)/g, (whole, name) => variables[name] ?? whole)
  return {
    ...{ ociVersion: '1.0.0', root: { path: place.rootfs, readonly: false } },
    ...(spec.hostNetwork ? {} : { hostname: place.hostname }),
    process: {
      ...{ cwd: '/opt/dormouse', user: { uid: 0, gid: 0 }, terminal: false, noNewPrivileges: false },
      args: [...container.command, ...container.args].map(expanded),
      env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...environment(variables)],
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    },
    mounts: [...KERNEL_MOUNTS, ...NODE_FILES, ...volumeMounts(container, place)],
    linux: {
      // A pod of the network of its node also has its host name. A privileged container sees its cgroups.
      namespaces: [
        ...['mount', 'ipc'],
        ...(spec.hostPID ? [] : ['pid']),
        ...(spec.hostNetwork ? [] : ['network', 'uts']),
      ].map((type) => ({ type })),
      rootfsPropagation: 'rshared',
      devices: await devicesIn('/dev'),
    },
  }
}

const KERNEL_MOUNTS = [
  { destination: '/proc', type: 'proc', source: 'proc', options: ['nosuid', 'noexec', 'nodev'] },
  { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=65536k'] },
  {
    ...{ destination: '/dev/pts', type: 'devpts', source: 'devpts' },
    options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620', 'gid=5'],
  },
  {
    destination: '/dev/shm',
    type: 'tmpfs',
    source: 'shm',
    options: ['nosuid', 'nodev', 'noexec', 'size=64m'],
  },
  { destination: '/dev/mqueue', type: 'mqueue', source: 'mqueue', options: ['nosuid', 'noexec', 'nodev'] },
  { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'rw'] },
]
const NODE_FILES = ['/etc/hosts', '/etc/resolv.conf'].map((path) => bind(path, path, ['rprivate', 'ro']))

function volumeMounts({ volumeMounts: mounts }: ContainerSpec, { sources, besides }: BundlePlace) {
  const ofManifest = mounts.map(({ name, mountPath, readOnly = false, mountPropagation = 'None' }) => {
    const source = sources.get(name)
    if (source === undefined) throw new Error(`the pod has no volume ${name}`)
    return bind(source, mountPath, [PROPAGATION[mountPropagation], ...(readOnly ? ['ro'] : ['rw'])])
  })
  return [...ofManifest, ...besides.map(([from, to]) => bind(from, to, ['rprivate', 'rw']))]
}

function bind(source: string, destination: string, options: readonly string[]) {
  return { destination, type: 'bind', source, options: ['rbind', ...options] }
}

/** Kubernetes tells every pod the addresses of services this way, unless its specification says otherwise. */
function linksOf({ metadata, spec }: ServiceSpec): [name: string, value: string][] {
  const name = metadata.name.toUpperCase().replaceAll('-', '_')
  const [{ port } = { port: 0 }] = spec.ports
  const address = `tcp://10.96.0.10:${port}`
  return [
    [`${name}_SERVICE_HOST`, '10.96.0.10'],
    [`${name}_SERVICE_PORT`, String(port)],
    [`${name}_PORT`, address],
    [`${name}_PORT_${port}_TCP`, address],
  ]
}

function environment(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).map(([name, value]) => `${name}=${value}`)
}

/** In the order of the kernel's numbers. */
const CAPABILITIES = [
  ...['CHOWN', 'DAC_OVERRIDE', 'DAC_READ_SEARCH', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID', 'SETPCAP'],
  ...[
    'LINUX_IMMUTABLE',
    'NET_BIND_SERVICE',
    'NET_BROADCAST',
    'NET_ADMIN',
    'NET_RAW',
    'IPC_LOCK',
    'IPC_OWNER',
  ],
  ...[
    'SYS_MODULE',
    'SYS_RAWIO',
    'SYS_CHROOT',
    'SYS_PTRACE',
    'SYS_PACCT',
    'SYS_ADMIN',
    'SYS_BOOT',
    'SYS_NICE',
  ],
  ...[
    'SYS_RESOURCE',
    'SYS_TIME',
    'SYS_TTY_CONFIG',
    'MKNOD',
    'LEASE',
    'AUDIT_WRITE',
    'AUDIT_CONTROL',
    'SETFCAP',
  ],
  ...['MAC_OVERRIDE', 'MAC_ADMIN', 'SYSLOG', 'WAKE_ALARM', 'BLOCK_SUSPEND', 'AUDIT_READ', 'PERFMON', 'BPF'],
  'CHECKPOINT_RESTORE',
].map((name) => `CAP_${name}`)

/** All that this machine gives away. */
async function ownCapabilities(): Promise<string[]> {
  const bounding = /^CapBnd:\s+(\w+)$/m.exec(await readFile('/proc/self/status', 'utf8'))?.[1]
  return CAPABILITIES.filter((_, bit) => (BigInt(`0x${bounding}`) >> BigInt(bit)) & 1n)
}

/** Every device of the node: that is what a privileged container has. */
async function devicesIn(directory: string): Promise<object[]> {
  const found: object[] = []
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory() && !['pts', 'shm', 'mqueue', 'fd'].includes(entry.name))
      found.push(...(await devicesIn(path)))
    if (!(entry.isCharacterDevice() || entry.isBlockDevice()) || ['console', 'ptmx'].includes(entry.name))
      continue
    const { mode, rdev, uid, gid } = await lstat(path)
    const type = (mode & FILE_TYPE) === DEVICE_TYPES.c ? 'c' : 'b'
    found.push({ path, type, ...numbersOf(rdev), fileMode: mode & 0o7777, uid, gid })
  }
  return found
}

/** As glibc packs them. */
function numbersOf(rdev: number): { major: number; minor: number } {
  const device = BigInt(rdev)
  const major = ((device >> 8n) & 0xfffn) | ((device >> 32n) & ~0xfffn)
  const minor = (device & 0xffn) | ((device >> 12n) & 0xffffff00n)
  return { major: Number(major), minor: Number(minor) }
}
