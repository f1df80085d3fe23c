import { type Command, Option } from 'commander'
import { createOptions } from './create-flags.ts'
import { numberFlag, pairsFlag, quietOption } from './flags.ts'
import { policyOptions } from './policy-flags.ts'
import type { Define } from './program.ts'

/** Commands that create, change, put to sleep, wake and delete sandboxes. */
export function defineLifecycleCommands(program: Command, define: Define): void {
  defineCreateCommand(program, define)
  define(program, {
    usage: 'ls',
    summary: 'list sandboxes',
    options: [
      quietOption(),
      new Option('--state <state>', 'only sandboxes in this state, such as running or standby'),
      new Option('--template <name>', 'only sandboxes made from this template'),
      new Option('--metadata <key=value>', 'only sandboxes with this metadata').argParser(
        pairsFlag('--metadata'),
      ),
    ],
    load: async () => (await import('./commands/ls.ts')).ls,
  })
  defineUpdateCommand(program, define)
  defineSleepCommands(program, define)
  define(program, {
    usage: 'fork <sandbox>',
    summary: 'make children with the same memory, processes and files',
    options: [
      new Option('-n, --count <number>', 'number of children').argParser(numberFlag('--count')).default(1),
      new Option('--no-reseed', 'keep the state of random generators, the same in every child'),
    ],
    load: async () => (await import('./commands/fork.ts')).fork,
    examples: ['fork analysis -n 5'],
  })
  define(program, {
    usage: 'rollback <sandbox> <snapshot>',
    summary: 'put a sandbox back to one of its snapshots, or of its forks; later changes are lost',
    load: async () => (await import('./commands/rollback.ts')).rollback,
    examples: ['rollback analysis before-upgrade', 'rollback analysis sb-k3v9x2m4p7q8r5t6/done'],
  })
  define(program, {
    usage: 'promote <sandbox>',
    summary: 'let the parent of a fork continue as the fork, under its own id and name',
    options: [new Option('--keep', 'keep the fork as a sandbox of its own')],
    load: async () => (await import('./commands/promote.ts')).promote,
  })
  define(program, {
    usage: 'rm <sandboxes...>',
    summary: 'delete sandboxes and everything in them',
    options: [new Option('-f, --force', 'ignore sandboxes that do not exist')],
    load: async () => (await import('./commands/rm.ts')).rm,
  })
  defineSnapshotCommands(program, define)
}

function defineSleepCommands(program: Command, define: Define): void {
  define(program, {
    usage: 'standby <sandbox>',
    summary: 'put a sandbox to sleep',
    options: [
      new Option('--stored', 'keep it on disk only; without this flag it is frozen in memory first'),
      new Option('--cluster', 'wait until its snapshot is in the depot of the cluster'),
    ],
    load: async () => (await import('./commands/standby.ts')).standby,
  })
  define(program, {
    usage: 'resume <sandbox>',
    summary: 'wake a sandbox (any other command also wakes it)',
    load: async () => (await import('./commands/resume.ts')).resume,
  })
}

function defineCreateCommand(program: Command, define: Define): void {
  define(program, {
    usage: 'create [name]',
    summary: 'create a sandbox',
    options: [
      new Option('--name <name>', 'the same as the argument'),
      new Option('--get-or-create', 'use the sandbox with this name if it exists'),
      new Option('--ephemeral', 'delete the sandbox after an hour without use'),
      ...createOptions(),
    ],
    load: async () => (await import('./commands/create.ts')).create,
    examples: [
      'create analysis --memory 4GiB',
      'create --ephemeral --env TOKEN=x',
      'create -v data:/data:ro',
      'create --network none',
      'create second --snapshot analysis/before-upgrade',
      'create --allow pypi.org:443 --allow "*.pythonhosted.org:443"',
    ],
  })
}

function defineUpdateCommand(program: Command, define: Define): void {
  define(program, {
    usage: 'update <sandbox>',
    summary: 'change the settings of a sandbox, awake or asleep; the others stay',
    options: [
      new Option('--name <name>', 'the new name'),
      new Option('--no-name', 'remove the name'),
      new Option('--metadata <key=value>', 'a label; replaces all labels').argParser(pairsFlag('--metadata')),
      new Option('--no-metadata', 'remove all labels'),
      new Option('--ephemeral', 'delete the sandbox after an hour without use'),
      new Option('--no-ephemeral', 'keep the sandbox until it is deleted'),
      ...policyOptions(),
      new Option('--no-wake-on-timer', 'let timers stand still while the sandbox sleeps'),
      new Option('--no-wake-on-data', 'let data on its connections wait until the sandbox wakes'),
      new Option('--no-expires', 'keep the sandbox until it is deleted'),
    ],
    load: async () => (await import('./commands/update.ts')).update,
    examples: [
      'update analysis --disk 50GiB',
      'update analysis --memory 8GiB --cpus 4',
      'update analysis --name archive --expires-idle 30d',
    ],
  })
}

function defineSnapshotCommands(program: Command, define: Define): void {
  const snapshot = program
    .command('snapshot')
    .helpCommand(false)
    .description('save the state of a sandbox, to roll back to')
  const load = async () => import('./commands/snapshot.ts')
  define(snapshot, {
    usage: 'create <sandbox>',
    summary: 'save the state of a sandbox; the word `create` is optional',
    isDefault: true,
    options: [
      new Option('--name <name>', 'a name for the snapshot'),
      new Option('--files', 'save files only, without processes and memory'),
    ],
    load: async () => (await load()).createSnapshot,
    examples: ['snapshot analysis --name before-upgrade', 'rollback analysis before-upgrade'],
  })
  define(snapshot, {
    usage: 'ls [sandbox]',
    summary: 'list the snapshots of one sandbox, or of all',
    options: [quietOption()],
    load: async () => (await load()).listSnapshots,
  })
  define(snapshot, {
    usage: 'verify [snapshots...]',
    summary: 'read these snapshots, or all, and check that they can be restored',
    load: async () => (await load()).verifySnapshots,
    examples: ['snapshot verify before-upgrade', 'snapshot verify'],
  })
  define(snapshot, {
    usage: 'rm <snapshots...>',
    summary: 'delete snapshots',
    load: async () => (await load()).removeSnapshots,
  })
}
