import type { Command } from 'commander'
import type { Call } from '../call.ts'
import { bashScript } from '../completion/bash-script.ts'
import { completionTree, type Node } from '../completion/completion-tree.ts'
import { fishScript } from '../completion/fish-script.ts'
import { zshScript } from '../completion/zsh-script.ts'

const SCRIPTS: Readonly<Record<string, (nodes: readonly Node[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

export async function completion(call: Call, shell: string, program: Command): Promise<void> {
  const script = SCRIPTS[shell]?.(completionTree(program)) ?? ''
  call.printResult({ shell, script }, script)
}
