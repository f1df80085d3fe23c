import { type Command, Option } from 'commander'
import { bytesFlag, collected, quietOption } from './flags.ts'
import { addNote } from './help.ts'
import type { Declare } from './program.ts'

/** Commands about what sandboxes are made from and share. */
export function declareDataCommands(program: Command, declare: Declare): void {
  const template = program.command('template').description('what sandboxes are made from').helpCommand(false)
  addNote(
    template,
    '`sudo ./dormouse template build FILE` builds one for every key of the host, as its root: only from a description that you trust.',
  )
  const templates = () => import('./commands/template.ts')
  declare(template, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list templates',
    options: [quietOption()],
    load: async () => (await templates()).listTemplates,
  })
  declare(template, {
    usage: 'create <name>',
    summary: 'make one from a snapshot, or from Debian and Python packages',
    options: [
      new Option('--snapshot <snapshot>', 'make it from this snapshot, at once'),
      new Option('--description <text>', 'what it is for'),
      new Option('--from <template>', 'the template to build on; python if you do not say'),
      new Option('--package <name>', 'Debian packages').argParser(collected),
      new Option('--pip <requirement>', 'Python packages').argParser(collected),
      new Option(
        '--run <command>',
        'commands that bash runs as root of the sandbox that builds it, after everything is installed',
      ).argParser(collected),
      new Option(
        '--preload <module>',
        'Python modules that every sandbox starts with already imported',
      ).argParser(collected),
      new Option(
        '--network <mode>',
        'what the build may reach: everything public, or nothing; without it, where packages come from',
      ).choices(['public', 'none']),
      new Option(
        '--allow <what>',
        'let the build reach this and nothing else, any number of times',
      ).argParser(collected),
    ],
    load: async () => (await templates()).createTemplate,
    examples: [
      'template create polars --pip polars --preload polars',
      'template create ready --snapshot loaded',
    ],
  })
  declare(template, {
    usage: 'show <name>',
    summary: 'what is known of one',
    options: [new Option('--materials', 'every package that it was built from, with its digest')],
    load: async () => (await templates()).showTemplate,
  })
  declare(template, {
    usage: 'rm <names...>',
    summary: 'delete templates that no sandbox needs',
    load: async () => (await templates()).removeTemplates,
  })
  const volume = program
    .command('volume')
    .description('directories that outlive sandboxes and can be shared')
    .helpCommand(false)
  const volumes = () => import('./commands/volume.ts')
  declare(volume, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list volumes',
    options: [quietOption()],
    load: async () => (await volumes()).listVolumes,
  })
  declare(volume, {
    usage: 'create <name>',
    summary: 'make an empty one',
    options: [sizeOption()],
    load: async () => (await volumes()).createVolume,
    examples: ['volume create data --size 20GiB', 'create analysis -v data:/data'],
  })
  declare(volume, {
    usage: 'update <name>',
    summary: 'change what it may hold; sandboxes that were put to standby because it was full can wake again',
    options: [sizeOption()],
    load: async () => (await volumes()).updateVolume,
    examples: ['volume update data --size 50GiB'],
  })
  declare(volume, {
    usage: 'show <name>',
    summary: 'measure it, and say who mounts it',
    load: async () => (await volumes()).showVolume,
  })
  declare(volume, {
    usage: 'rm <names...>',
    summary: 'delete volumes with all that is in them',
    load: async () => (await volumes()).removeVolumes,
  })
  declareSecrets(program, declare)
  declareSshKeys(program, declare)
  declareScrub(program, declare)
}

function declareScrub(program: Command, declare: Declare): void {
  const scrub = program
    .command('scrub')
    .description('the check of all that the server stores, in the background')
    .helpCommand(false)
  const commands = () => import('./commands/scrub.ts')
  declare(scrub, {
    usage: 'show',
    summary: 'how far it is, and what is damaged; then the exit code is 1',
    load: async () => (await commands()).showScrub,
  })
  declare(scrub, {
    usage: 'start',
    summary: 'read all that is stored now, and not only once a week',
    load: async () => (await commands()).startScrub,
  })
}

function sizeOption(): Option {
  return new Option('--size <size>', 'let it hold so much, such as 20GiB').argParser(bytesFlag('--size'))
}

function declareSecrets(program: Command, declare: Declare): void {
  const secret = program
    .command('secret')
    .description('values that sandboxes use in requests and never hold')
    .helpCommand(false)
  const secrets = () => import('./commands/secret.ts')
  const domain = () =>
    new Option(
      '--domain <host>',
      'where it is sent to, any number of times; *.example.com for all below',
    ).argParser(collected)
  declare(secret, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list secrets',
    options: [quietOption()],
    load: async () => (await secrets()).listSecrets,
  })
  declare(secret, {
    usage: 'create <name>',
    summary:
      'keep a value, read from standard input; sandboxes find a placeholder in the variable of that name',
    options: [domain()],
    load: async () => (await secrets()).createSecret,
    examples: [
      'secret create OPENAI_API_KEY --domain api.openai.com < key.txt',
      'create agent --secret OPENAI_API_KEY',
    ],
  })
  declare(secret, {
    usage: 'set <name>',
    summary:
      'replace its value, read from standard input, or its domains; at once in every sandbox that has it',
    options: [domain()],
    load: async () => (await secrets()).setSecret,
  })
  declare(secret, {
    usage: 'show <name>',
    summary: 'its domains and placeholder, and who has it',
    load: async () => (await secrets()).showSecret,
  })
  declare(secret, {
    usage: 'give <sandbox> <names...>',
    summary: 'let a sandbox use secrets',
    load: async () => (await secrets()).giveSecrets,
  })
  declare(secret, {
    usage: 'take <sandbox> <names...>',
    summary: 'take secrets from a sandbox',
    load: async () => (await secrets()).takeSecrets,
  })
  declare(secret, {
    usage: 'rm <names...>',
    summary: 'delete secrets that no sandbox has',
    options: [new Option('-f, --force', 'take them from the sandboxes that have them first')],
    load: async () => (await secrets()).removeSecrets,
  })
}

function declareSshKeys(program: Command, declare: Declare): void {
  const key = program
    .command('ssh-key')
    .description('public keys whose holders get into your sandboxes with `ssh`')
    .helpCommand(false)
  const keys = () => import('./commands/ssh-key.ts')
  declare(key, {
    usage: 'add [file]',
    summary: 'add a public key: yours in ~/.ssh, or this file; - for what is piped in',
    options: [new Option('--name <name>', 'to find it by; otherwise what its comment says')],
    load: async () => (await keys()).addSshKey,
    examples: ['ssh-key add', 'ssh-key add ~/.ssh/work.pub --name work'],
  })
  declare(key, {
    usage: 'confirm <name>',
    summary: 'confirm a key that was added elsewhere, with its private key; `add` does it where it can',
    options: [new Option('-i, --identity <file>', 'the private key, if `ssh` would not find it by itself')],
    load: async () => (await keys()).confirmSshKey,
  })
  declare(key, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list SSH keys',
    options: [quietOption()],
    load: async () => (await keys()).listSshKeys,
  })
  declare(key, {
    usage: 'rm <names...>',
    summary: 'delete SSH keys; their open connections end at once',
    load: async () => (await keys()).removeSshKeys,
  })
}
