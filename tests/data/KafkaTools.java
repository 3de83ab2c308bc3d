import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command line tools one after the other in one process: a line of stdin is a main class and its
 * arguments, separated by tabs; a line of stdout is the exit code and, in base64, the tool's stdout and its stderr.
 */
public class KafkaTools {
    /** The code of the first exit: tools catch what ends them, and exit once more. */
    private static Integer ended;

    public static void main(String[] words) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            ended = ended == null ? code : ended;
            throw new IllegalStateException("exit");
        });
        PrintStream answers = System.out;
        try (var lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                String[] line = lines.nextLine().split("\t");
                var said = new ByteArrayOutputStream();
                var complained = new ByteArrayOutputStream();
                System.setOut(new PrintStream(said, true));
                System.setErr(new PrintStream(complained, true));
                int code = run(line[0], Arrays.copyOfRange(line, 1, line.length));
                var base64 = Base64.getEncoder();
                answers.println(code + " " + base64.encodeToString(said.toByteArray()) + " "
                    + base64.encodeToString(complained.toByteArray()));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String name, String[] arguments) {
        ended = null;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (ReflectiveOperationException error) {
            if (ended == null) {
                error.printStackTrace();
            }
            return ended == null ? 1 : ended;
        }
    }
}
