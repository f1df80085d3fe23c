import { type Command, Option } from 'commander'
import { isolationOption } from './create-flags.ts'
import { defineVolumeCommands } from './define-volume-commands.ts'
import { collectValues, quietOption } from './flags.ts'
import { addNote } from './help.ts'
import type { Define } from './program.ts'
import { readyOptions } from './ready-flags.ts'

/** Commands about templates, volumes, secrets, SSH keys and the scrub. */
export function defineResourceCommands(program: Command, define: Define): void {
  defineTemplateCommands(program, define)
  defineVolumeCommands(program, define)
  defineSecretCommands(program, define)
  defineSshKeyCommands(program, define)
  defineScrubCommands(program, define)
}

function defineTemplateCommands(program: Command, define: Define): void {
  const template = program.command('template').description('what sandboxes start from').helpCommand(false)
  addNote(
    template,
    '`sudo ./dormouse template build FILE` builds a template for every key, as root of the host: use only descriptions that you trust.',
  )
  const templates = () => import('./commands/template.ts')
  define(template, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list templates',
    options: [quietOption()],
    load: async () => (await templates()).listTemplates,
  })
  define(template, {
    usage: 'create <name>',
    summary: 'make a template from an image, a Dockerfile, packages or a snapshot',
    options: templateOptions(),
    load: async () => (await templates()).createTemplate,
    examples: [
      'template create web --image node:24 --run "npm install -g serve"',
      'template create api --dockerfile . --ready 8000',
      'template create polars --pip polars --preload polars',
      'template create ready --snapshot loaded',
    ],
  })
  define(template, {
    usage: 'show <name>',
    summary: 'show one template',
    options: [new Option('--materials', 'list every package that it was built from, with its digest')],
    load: async () => (await templates()).showTemplate,
  })
  define(template, {
    usage: 'debug <name>',
    summary: 'open a shell in the state before the build step that failed',
    options: [new Option('--sandbox <name>', 'a name for the sandbox; it stays until you delete it')],
    load: async () => (await import('./commands/template-debug.ts')).debugTemplate,
    examples: ['template debug web'],
  })
  define(template, {
    usage: 'rm <names...>',
    summary: 'delete templates that no sandbox needs',
    load: async () => (await templates()).removeTemplates,
  })
}

function templateOptions(): Option[] {
  return [
    new Option('--snapshot <snapshot>', 'make the template from this snapshot, without a build'),
    new Option('--description <text>', 'a description for readers'),
    new Option('--from <template>', 'the template to build on (default: python)'),
    isolationOption('whether its sandboxes share the kernel of the host, or are virtual machines'),
    new Option(
      '--image <image>',
      'the container image to build on: node:24, an archive (web.tar) or an OCI layout (./web)',
    ),
    new Option('--dockerfile <path>', 'build this Dockerfile, or the one in this directory'),
    new Option('--context <directory>', 'where COPY takes files from (default: that of the Dockerfile)'),
    new Option('--build-arg <name=value>', 'a value for ARG').argParser(collectValues),
    new Option('--target <stage>', 'the stage to build (default: the last)'),
    new Option(
      '--login <user[@registry]>',
      'log in to a registry; the password is in DORMOUSE_REGISTRY_PASSWORD (several: one a line), or is asked for',
    ).argParser(collectValues),
    new Option('--start <command>', 'start this once; its processes run in every new sandbox'),
    ...readyOptions(),
    new Option('--package <name>', 'a Debian package').argParser(collectValues),
    new Option('--pip <requirement>', 'a Python package').argParser(collectValues),
    new Option(
      '--run <command>',
      'a command that bash runs as root of the sandbox that builds the template, after all installations',
    ).argParser(collectValues),
    new Option('--preload <module>', 'a Python module that is imported before a sandbox starts').argParser(
      collectValues,
    ),
    new Option(
      '--network <mode>',
      'allow the build the public internet, or nothing (default: only package registries)',
    ).choices(['public', 'none']),
    new Option('--allow <target>', 'allow the build only this, any number of times').argParser(collectValues),
  ]
}

function domainOption(): Option {
  return new Option(
    '--domain <host>',
    'a host that may receive the secret, any number of times; *.example.com for all subdomains',
  ).argParser(collectValues)
}

function defineSecretCommands(program: Command, define: Define): void {
  const secret = program
    .command('secret')
    .description('values that sandboxes can use in requests but never see')
    .helpCommand(false)
  const secrets = () => import('./commands/secret.ts')
  define(secret, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list secrets',
    options: [quietOption()],
    load: async () => (await secrets()).listSecrets,
  })
  define(secret, {
    usage: 'create <name>',
    summary:
      'store a value from standard input; sandboxes get a placeholder in the environment variable of that name',
    options: [domainOption()],
    load: async () => (await secrets()).createSecret,
    examples: [
      'secret create OPENAI_API_KEY --domain api.openai.com < key.txt',
      'create agent --secret OPENAI_API_KEY',
    ],
  })
  define(secret, {
    usage: 'set <name>',
    summary: 'replace the value, from standard input, or the domains; effective immediately in every sandbox',
    options: [domainOption()],
    load: async () => (await secrets()).setSecret,
  })
  define(secret, {
    usage: 'show <name>',
    summary: 'show domains, placeholder and the sandboxes that have the secret',
    load: async () => (await secrets()).showSecret,
  })
  defineSecretUseCommands(secret, define)
}

function defineSecretUseCommands(secret: Command, define: Define): void {
  const secrets = () => import('./commands/secret.ts')
  define(secret, {
    usage: 'give <sandbox> <names...>',
    summary: 'let a sandbox use secrets',
    load: async () => (await secrets()).giveSecrets,
  })
  define(secret, {
    usage: 'take <sandbox> <names...>',
    summary: 'stop a sandbox from using secrets',
    load: async () => (await secrets()).takeSecrets,
  })
  define(secret, {
    usage: 'rm <names...>',
    summary: 'delete secrets that no sandbox has',
    options: [new Option('-f, --force', 'first take them from the sandboxes that have them')],
    load: async () => (await secrets()).removeSecrets,
  })
}

function defineSshKeyCommands(program: Command, define: Define): void {
  const key = program
    .command('ssh-key')
    .description('public keys that can log in to your sandboxes with `ssh`')
    .helpCommand(false)
  const keys = () => import('./commands/ssh-key.ts')
  define(key, {
    usage: 'add [file]',
    summary: 'register a public key: yours in ~/.ssh, or this file; - reads stdin',
    options: [new Option('--name <name>', 'a name for the key (default: its comment)')],
    load: async () => (await keys()).addSshKey,
    examples: ['ssh-key add', 'ssh-key add ~/.ssh/work.pub --name work'],
  })
  define(key, {
    usage: 'confirm <name>',
    summary:
      'confirm a key with its private key; `add` already does this if the private key is on this machine',
    options: [new Option('-i, --identity <file>', 'the private key, if `ssh` does not find it')],
    load: async () => (await keys()).confirmSshKey,
  })
  define(key, {
    usage: 'ls',
    aliases: ['list'],
    summary: 'list SSH keys',
    options: [quietOption()],
    load: async () => (await keys()).listSshKeys,
  })
  define(key, {
    usage: 'rm <names...>',
    summary: 'delete SSH keys and close their connections',
    load: async () => (await keys()).removeSshKeys,
  })
}

function defineScrubCommands(program: Command, define: Define): void {
  const scrub = program
    .command('scrub')
    .description('the background check of everything the server stores')
    .helpCommand(false)
  const commands = () => import('./commands/scrub.ts')
  define(scrub, {
    usage: 'show',
    summary: 'show its progress and what is damaged; exit status 1 if anything is',
    load: async () => (await commands()).showScrub,
  })
  define(scrub, {
    usage: 'start',
    summary: 'start a pass over everything stored now',
    load: async () => (await commands()).startScrub,
  })
}
