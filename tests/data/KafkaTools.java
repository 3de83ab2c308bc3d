import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one process: a line of stdin is a main class and its
 * arguments, separated by tabs; a line of stdout is the exit code and, in base64, all that the tool said.
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
                var stream = new PrintStream(said, true);
                System.setOut(stream);
                System.setErr(stream);
                int code = run(line[0], Arrays.copyOfRange(line, 1, line.length), stream);
                answers.println(code + " " + Base64.getEncoder().encodeToString(said.toByteArray()));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String name, String[] arguments, PrintStream said) {
        ended = null;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (ReflectiveOperationException error) {
            if (ended == null) {
                error.printStackTrace(said);
            }
            return ended == null ? 1 : ended;
        }
    }
}
