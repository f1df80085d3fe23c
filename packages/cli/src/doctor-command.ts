import { type Check, examineHost, type HostReport } from '@dormouse/engine-linux/setup'

export interface CommandOutput {
  write(text: string): unknown
}

export interface DoctorCommand {
  readonly dataDir: string
  readonly json: boolean
  readonly stdout: CommandOutput
  readonly examine?: (dataDir: string) => Promise<HostReport>
}

/** Returns the exit status: 0 only when sandboxes can run. */
export async function doctorCommand({
  dataDir,
  json,
  stdout,
  examine = examineHost,
}: DoctorCommand): Promise<number> {
  const report = await examine(dataDir)
  stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : formatChecks(report.checks))
  if (!json) stdout.write(`\n${report.canRunSandboxes ? 'Sandboxes can run.' : 'Sandboxes cannot run.'}\n`)
  return report.canRunSandboxes ? 0 : 1
}

export function formatChecks(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ title }) => title.length))
  const indent = ' '.repeat('ok    '.length + width + 2)
  return checks
    .map(({ status, title, found, meaning, mend }) => {
      const head = `${status.padEnd(6)}${title.padEnd(width)}  ${found}\n`
      const mending = mend === undefined ? '' : `${indent}-> ${mend}\n`
      return `${head}${indent}${meaning}\n${mending}`
    })
    .join('')
}
