import { type Command, Option } from 'commander'
import { bytesFlag, numberFlag, quietOption } from './flags.ts'
import type { Define } from './program.ts'

/** Commands about volumes and the files in them. */
export function defineVolumeCommands(program: Command, define: Define): void {
  const volume = program
    .command('volume')
    .description('directories that outlive sandboxes and can be shared')
    .helpCommand(false)
  defineReports(volume, define)
  defineChanges(volume, define)
  defineMounts(volume, define)
  defineFiles(volume, define)
}

const volumes = () => import('./commands/volume.ts')

function defineReports(volume: Command, define: Define): void {
  define(volume, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list volumes',
    options: [quietOption()],
    load: async () => (await volumes()).listVolumes,
  })
  define(volume, {
    usage: 'show <name>',
    summary: 'measure a volume and list the sandboxes that mount it',
    load: async () => (await volumes()).showVolume,
  })
}

function defineChanges(volume: Command, define: Define): void {
  define(volume, {
    usage: 'create <name>',
    summary: 'create an empty volume',
    options: [sizeOption()],
    load: async () => (await volumes()).createVolume,
    examples: ['volume create data --size 20GiB', 'create analysis -v data:/data'],
  })
  define(volume, {
    usage: 'clone <name> <new>',
    summary: 'make a volume with the content of another one; blocks are shared where the disk can',
    options: [new Option('--read-only', 'make a snapshot, to which nothing can write'), sizeOption()],
    load: async () => (await volumes()).cloneVolume,
    examples: ['volume clone data data-v1 --read-only', 'volume clone data-v1 experiment'],
  })
  define(volume, {
    usage: 'update <name>',
    summary: 'change the size of a volume; sandboxes that sleep because it was full can wake again',
    options: [sizeOption()],
    load: async () => (await volumes()).updateVolume,
    examples: ['volume update data --size 50GiB'],
  })
  define(volume, {
    usage: 'rm <names...>',
    summary: 'delete volumes and everything in them',
    load: async () => (await volumes()).removeVolumes,
  })
}

function defineMounts(volume: Command, define: Define): void {
  define(volume, {
    usage: 'attach <sandbox> <volume:path[:ro]>',
    summary: 'mount a volume in a sandbox, awake or asleep',
    load: async () => (await volumes()).attachVolume,
    examples: ['volume attach analysis data:/data', 'volume attach analysis data-v1:/old:ro'],
  })
  define(volume, {
    usage: 'detach <sandbox> <name>',
    summary: 'unmount a volume from a sandbox, awake or asleep',
    load: async () => (await volumes()).detachVolume,
  })
  define(volume, {
    usage: 'share <name> <key>',
    summary: 'let sandboxes of another key mount a volume',
    options: [new Option('--write', 'let them write to it too')],
    load: async () => (await volumes()).shareVolume,
    examples: ['volume share data team-b', 'volume share data team-b --write'],
  })
  define(volume, {
    usage: 'unshare <name> <key>',
    summary: 'stop sharing; awake sandboxes of that key that mount it go to standby',
    load: async () => (await volumes()).unshareVolume,
  })
}

function defineFiles(volume: Command, define: Define): void {
  const files = () => import('./commands/volume-files.ts')
  define(volume, {
    usage: 'files <name> [path]',
    summary: 'list a directory of a volume, without a sandbox',
    options: [new Option('--depth <number>', 'levels of directories').argParser(numberFlag('--depth'))],
    load: async () => (await files()).listVolumeFiles,
    examples: ['volume files data', 'volume files data /results --depth 3'],
  })
  define(volume, {
    usage: 'cp <from> <to>',
    summary: 'copy files or directories to or from a volume, without a sandbox; - is stdin or stdout',
    load: async () => (await files()).copyVolumeFiles,
    examples: ['volume cp ./input.csv data:/input.csv', 'volume cp data:/results ./results'],
  })
  define(volume, {
    usage: 'rm-file <name> <paths...>',
    summary: 'delete files of a volume, without a sandbox',
    options: [new Option('-r, --recursive', 'also delete directories and their contents')],
    load: async () => (await files()).removeVolumeFiles,
    examples: ['volume rm-file data /old.csv', 'volume rm-file data /scratch -r'],
  })
}

function sizeOption(): Option {
  return new Option('--size <size>', 'the size, such as 20GiB').argParser(bytesFlag('--size'))
}
