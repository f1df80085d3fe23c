import { type Command, Option } from 'commander'
import { collected } from './flags.ts'
import type { Declare } from './program.ts'

/** Commands about what sandboxes are made from and share. */
export function declareDataCommands(program: Command, declare: Declare): void {
  const template = program.command('template').description('what sandboxes are made from').helpCommand(false)
  template.addHelpText(
    'after',
    '\n`sudo ./dormouse template build FILE` builds one on the host, from a description of your own.',
  )
  const templates = () => import('./commands/template.ts')
  declare(template, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list templates',
    load: async () => (await templates()).listTemplates,
  })
  declare(template, {
    usage: 'create <name>',
    summary: 'make one from a snapshot, or from Debian and Python packages',
    options: [
      new Option('--snapshot <snapshot>', 'make it from this snapshot, at once'),
      new Option('--description <text>', 'what it is for'),
      new Option('--package <name>', 'Debian packages').argParser(collected),
      new Option('--pip <requirement>', 'Python packages').argParser(collected),
      new Option(
        '--run <command>',
        'commands that bash runs as root inside, after everything is installed',
      ).argParser(collected),
      new Option(
        '--preload <module>',
        'Python modules that every sandbox starts with already imported',
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
    load: async () => (await volumes()).listVolumes,
  })
  declare(volume, {
    usage: 'create <name>',
    summary: 'make an empty one',
    load: async () => (await volumes()).createVolume,
    examples: ['volume create data', 'create analysis -v data:/data'],
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
}
