import { type Command, Option } from 'commander'
import { collected, numberFlag, pairsFlag, quietOption } from './flags.ts'
import { policyOptions } from './policy-flags.ts'
import type { Declare } from './program.ts'

/** Commands about the life of sandboxes. */
export function declareLifeCommands(program: Command, declare: Declare): void {
  declare(program, {
    usage: 'create [name]',
    summary: 'make a sandbox',
    options: createOptions(),
    load: async () => (await import('./commands/create.ts')).create,
    examples: [
      'create analysis --memory 4GiB',
      'create --ephemeral --env TOKEN=x',
      'create -v data:/data:ro',
      'create --network none',
      'create --allow pypi.org:443 --allow "*.pythonhosted.org:443"',
    ],
  })
  declare(program, {
    usage: 'ls',
    summary: 'list sandboxes',
    options: [
      quietOption(),
      new Option('--state <state>', 'only those in this state, such as running or standby'),
      new Option('--template <name>', 'only those made from this template'),
      new Option('--metadata <key=value>', 'only those with this metadata').argParser(
        pairsFlag('--metadata'),
      ),
    ],
    load: async () => (await import('./commands/ls.ts')).ls,
  })
  declare(program, {
    usage: 'update <sandbox>',
    summary: 'change how a sandbox is treated, awake or asleep; what is not named stays as it is',
    options: updateOptions(),
    load: async () => (await import('./commands/update.ts')).update,
    examples: [
      'update analysis --disk 50GiB',
      'update analysis --memory 8GiB --cpus 4',
      'update analysis --name archive --expires-idle 30d',
    ],
  })
  declare(program, {
    usage: 'standby <sandbox>',
    summary: 'put a sandbox to sleep',
    options: [new Option('--stored', 'on disk only, without any memory; otherwise frozen in memory first')],
    load: async () => (await import('./commands/standby.ts')).standby,
  })
  declare(program, {
    usage: 'resume <sandbox>',
    summary: 'wake a sandbox (any other command wakes it too)',
    load: async () => (await import('./commands/resume.ts')).resume,
  })
  declare(program, {
    usage: 'fork <sandbox>',
    summary: 'make children with the same memory, processes and files',
    options: [
      new Option('-n, --count <number>', 'how many').argParser(numberFlag('--count')).default(1),
      new Option('--no-reseed', 'leave random generators as they are, the same in every child'),
    ],
    load: async () => (await import('./commands/fork.ts')).fork,
    examples: ['fork analysis -n 5'],
  })
  declare(program, {
    usage: 'rollback <sandbox> <snapshot>',
    summary: 'bring a sandbox back to one of its snapshots; what happened since is gone',
    load: async () => (await import('./commands/rollback.ts')).rollback,
  })
  declare(program, {
    usage: 'rm <sandboxes...>',
    summary: 'delete sandboxes with all that is in them',
    options: [new Option('-f, --force', 'one that does not exist is no failure')],
    load: async () => (await import('./commands/rm.ts')).rm,
  })
  declareSnapshots(program, declare)
}

function createOptions(): Option[] {
  return [
    new Option('--name <name>', 'the same as the argument'),
    new Option('--template <name>', 'what to make it from'),
    new Option('--get-or-create', 'take the one of that name if it exists'),
    new Option('--ephemeral', 'delete it instead of putting it to sleep'),
    new Option('-e, --env <name=value>', 'environment of everything inside').argParser(pairsFlag('--env')),
    new Option('--metadata <key=value>', 'labels of yours').argParser(pairsFlag('--metadata')),
    new Option('-v, --volume <volume:path[:ro]>', 'mount a volume').argParser(collected),
    new Option('--secret <name>', 'let it use a secret').argParser(collected),
    new Option('--network <mode>', 'what it may reach: everything public, or nothing').choices([
      'public',
      'none',
    ]),
    new Option(
      '--allow <what>',
      'reach this and nothing else, any number of times: example.com, *.example.com:443, 203.0.113.0/24',
    ).argParser(collected),
    ...policyOptions(),
  ]
}

function updateOptions(): Option[] {
  return [
    new Option('--name <name>', 'call it so'),
    new Option('--no-name', 'take its name away'),
    new Option('--metadata <key=value>', 'labels of yours, instead of all that it has').argParser(
      pairsFlag('--metadata'),
    ),
    new Option('--no-metadata', 'take its labels away'),
    new Option('--ephemeral', 'delete it instead of putting it to sleep'),
    new Option('--no-ephemeral', 'put it to sleep as any other'),
    ...policyOptions(),
    new Option('--no-expires', 'keep it until somebody deletes it'),
  ]
}

function declareSnapshots(program: Command, declare: Declare): void {
  const snapshot = program
    .command('snapshot')
    .helpCommand(false)
    .description('save states of a sandbox to come back to')
  const load = async () => import('./commands/snapshot.ts')
  declare(snapshot, {
    usage: 'create <sandbox>',
    summary: 'save its state; `create` may be left out',
    isDefault: true,
    options: [
      new Option('--name <name>', 'to find it by'),
      new Option('--files', 'files only, without processes and memory'),
    ],
    load: async () => (await load()).createSnapshot,
    examples: ['snapshot analysis --name before-upgrade', 'rollback analysis before-upgrade'],
  })
  declare(snapshot, {
    usage: 'ls [sandbox]',
    summary: 'list snapshots, of all sandboxes or of one',
    options: [quietOption()],
    load: async () => (await load()).listSnapshots,
  })
  declare(snapshot, {
    usage: 'verify [snapshots...]',
    summary: 'read snapshots whole and say whether they could be restored: these, or all',
    load: async () => (await load()).verifySnapshots,
    examples: ['snapshot verify before-upgrade', 'snapshot verify'],
  })
  declare(snapshot, {
    usage: 'rm <snapshots...>',
    summary: 'delete snapshots',
    load: async () => (await load()).removeSnapshots,
  })
}
