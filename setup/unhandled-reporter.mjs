// A vitest reporter: writes the test files that left an error unhandled to the file that $UNHANDLED_FILES names, one
// in each line. The JSON report has no word of them, although they fail the run.
import { writeFileSync } from 'node:fs'

export default class UnhandledReporter {
  /**
   * @param {readonly unknown[]} _modules
   * @param {readonly { VITEST_TEST_PATH?: string }[]} errors
   */
  onTestRunEnd(_modules, errors) {
    const { UNHANDLED_FILES: path } = process.env
    if (path === undefined) return
    writeFileSync(
      path,
      filesOf(errors)
        .map((file) => `${file}\n`)
        .join(''),
    )
  }
}

/**
 * The empty name stands for a file that vitest does not know.
 *
 * @param {readonly { VITEST_TEST_PATH?: string }[]} errors
 */
export function filesOf(errors) {
  return [...new Set(errors.map((error) => error.VITEST_TEST_PATH ?? ''))]
}
